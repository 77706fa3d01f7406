package locks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
)

// TestExplain decodes each object that threads wait for: the first reading must be
// the right one, and nothing may speak against it.
func TestExplain(t *testing.T) {
	names := map[locks.Kind]string{
		locks.Mutex: "pthread_mutex_t", locks.PIMutex: "pthread_mutex_t", locks.RobustMutex: "pthread_mutex_t",
		locks.Cond: "pthread_cond_t of glibc 2.25 to 2.40", locks.Sem: "sem_t", locks.Barrier: "pthread_barrier_t of glibc 2.23 and later",
		locks.RWLockRead: "pthread_rwlock_t of glibc 2.25 and later", locks.RWLockWrite: "pthread_rwlock_t of glibc 2.25 and later",
		locks.Once: "pthread_once_t", locks.FileLock: "_IO_lock_t",
	}
	for build, flags := range builds {
		exe := coretest.Compile(t, "waits.c", flags...)
		for _, scenario := range []string{"mutexes", "conds", "cond-groups", "rwlocks", "sems", "barriers", "once", "file-locks"} {
			t.Run(build+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
				d := open(t, c.Core, module.Config{NoHostFiles: true})
				for _, w := range truthOf(t, c.Core).Waits {
					readings, err := locks.Explain(d.core, d.process, d.set, elfcore.Addr(w.Object))
					if err != nil {
						t.Fatal(err)
					}
					first := readings[0]
					if !strings.HasPrefix(first.What, names[locks.Kind(w.Kind)]) || len(first.Against) > 0 {
						t.Errorf("%s at %s: %s, against it %q", w.Kind, elfcore.Addr(w.Object), first.What, first.Against)
					}
				}
			})
		}
	}
}

// TestExplainNothing asks for memory that is not there, and for its last bytes.
func TestExplainNothing(t *testing.T) {
	x := blockedCall{data, 2, wait | private, false, nil, nil}
	d := read(t, x.amd64())
	var fault *elfcore.Fault
	if _, err := locks.Explain(d.core, d.process, d.set, 0x5000); !errors.As(err, &fault) {
		t.Errorf("%v is no fault", err)
	}
	readings, err := locks.Explain(d.core, d.process, d.set, data+0xff8)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readings {
		if r.What != "pthread_once_t" && len(r.Against) == 0 {
			t.Errorf("8 bytes fit as %s", r.What)
		}
	}
}
