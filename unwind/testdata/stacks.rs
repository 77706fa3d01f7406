// Rust: closures, generics, a panic that aborts while other threads wait.
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

trait Work {
    fn work(&self, n: u32) -> u32;
}

struct Waiter {
    pair: Arc<(Mutex<bool>, Condvar)>,
}

impl Work for Waiter {
    #[inline(never)]
    fn work(&self, n: u32) -> u32 {
        if n > 0 {
            return self.work(n - 1) + 1;
        }
        let (lock, changed) = &*self.pair;
        let mut done = lock.lock().unwrap();
        while !*done {
            done = changed.wait(done).unwrap();
        }
        n
    }
}

#[inline(never)]
fn fail<T: std::fmt::Debug>(value: T) {
    panic!("cannot {:?}", value);
}

fn main() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let mut threads = Vec::new();
    for i in 0..2 {
        let pair = pair.clone();
        threads.push(thread::spawn(move || {
            let w: Box<dyn Work> = Box::new(Waiter { pair });
            w.work(i)
        }));
    }
    threads.push(thread::spawn(|| {
        thread::sleep(Duration::from_secs(1000));
        0
    }));
    thread::sleep(Duration::from_millis(300));
    fail("it");
}
