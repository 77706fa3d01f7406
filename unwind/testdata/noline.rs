// Two calls that the compiler makes one of, which then belongs to no line: in the
// line table it has line 0.
use std::hint::black_box;

#[inline(never)]
fn die(n: u32) -> u32 {
    if black_box(n) > 0 {
        std::process::abort();
    }
    n
}

#[inline(never)]
fn merged(n: u32) -> u32 {
    let r;
    if n > 1000 {
        black_box(n + 1);
        r = die(n);
    } else {
        black_box(n + 2);
        r = die(n);
    }
    black_box(r) + 1
}

fn main() {
    black_box(merged(black_box(2000)));
}
