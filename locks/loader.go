package locks

import (
	"github.com/corethreads/corethreads/elfcore"
)

// loaderLock is one of the dynamic loader's recursive mutexes in _rtld_global.
type loaderLock struct {
	addr elfcore.Addr
	name string
}

// loaderLocks are their names in the order in which _rtld_global has them
// (sysdeps/generic/ldsodefs.h); the last since glibc 2.35.
func loaderLockNames() []string {
	return []string{"_dl_load_lock", "_dl_load_write_lock", "_dl_load_tls_lock"}
}

// findLoaderLocks finds the locks by their shape: two or three recursive mutexes
// in a row, behind _dl_nns, the number of namespaces, and in front of
// _dl_load_adds, how many modules were ever loaded.
func (a *analyzer) findLoaderLocks() []loaderLock {
	ld := a.set.Loader()
	if ld == nil || a.musl {
		return nil
	}
	for _, data := range a.set.WritableData(ld) {
		b := make([]byte, min(data.Len(), 1<<20))
		n, _ := a.core.ReadMemory(b, data.Start)
		b = b[:n]
		for _, size := range []uint64{a.mutexSize(), 48} {
			for at := a.w; at+2*size <= uint64(len(b)); at += a.w {
				k := a.lockRun(b, at, size)
				if k == 0 {
					continue
				}
				var out []loaderLock
				for i := range k {
					out = append(out, loaderLock{data.Start + elfcore.Addr(at+i*size), loaderLockNames()[i]})
				}
				return out
			}
		}
	}
	return nil
}

// mutexSize is sizeof(pthread_mutex_t): 40 bytes on most 64-bit systems (48 on
// aarch64), 24 on 32-bit ones.
func (a *analyzer) mutexSize() uint64 {
	if a.w == 4 {
		return 24
	}
	return 40
}

// lockRun counts the recursive mutexes in a row at an offset, 0 where it is not
// the loader's row.
func (a *analyzer) lockRun(b []byte, at, size uint64) uint64 {
	const maxNamespaces, maxLoaded = 16, 1 << 24
	if nns := a.core.WordOf(b[at-a.w:]); nns < 1 || nns > maxNamespaces {
		return 0
	}
	k := uint64(0)
	for k < 3 && at+(k+1)*size <= uint64(len(b)) && a.recursiveImage(b[at+k*size:at+(k+1)*size]) {
		k++
	}
	// The count has 64 bits, aligned to that on some 32-bit systems.
	for _, end := range []uint64{at + k*size, (at + k*size + 7) &^ 7} {
		if k < 2 || end+8 > uint64(len(b)) {
			return 0
		}
		if adds := a.core.ByteOrder.Uint64(b[end:]); adds >= 1 && adds <= maxLoaded {
			return k
		}
	}
	return 0
}

// recursiveImage tells whether bytes are a recursive mutex that is free, or held
// with its owner set.
func (a *analyzer) recursiveImage(b []byte) bool {
	o := a.core.ByteOrder
	lock, count, owner := o.Uint32(b), o.Uint32(b[mutexCount:]), o.Uint32(b[mutexOwner:])
	users, kind := o.Uint32(b[a.layout.mutexUsers:]), o.Uint32(b[a.layout.mutexKind:])
	if kind != kindRecursive || lock > 2 || (owner == 0) != (count == 0) || owner > maxTID || users > maxUsers {
		return false
	}
	for _, x := range b[max(a.layout.mutexKind, a.layout.mutexUsers)+4:] {
		if x != 0 {
			return false
		}
	}
	return true
}

// loaderLockAt names the loader's lock at an address. One that was not found by
// its shape, but is a recursive mutex in the loader's data, is one all the same,
// without a name.
func (a *analyzer) loaderLockAt(at elfcore.Addr) (string, bool) {
	for _, l := range a.loader {
		if l.addr == at {
			return l.name, true
		}
	}
	ld := a.set.Loader()
	if ld == nil || a.musl || !ld.Contains(at) {
		return "", false
	}
	m, ok := a.mutexAt(at)
	return "", ok && m.kind == kindRecursive && m.sound()
}
