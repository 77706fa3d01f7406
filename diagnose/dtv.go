package diagnose

import "github.com/corethreads/corethreads/elfcore"

// DTVPointer is where the descriptor at pd keeps the address of its dtv, the
// vector of its blocks of thread-locals: the member dtv of tcbhead_t, which lies
// at a fixed distance from the thread pointer (sysdeps/*/nptl/tls.h). It is not
// known where the core does not show how far that is from the descriptor.
func (r *Report) DTVPointer(pd elfcore.Addr) (elfcore.Addr, bool) {
	tls := r.Core.Arch.TLS
	return pd + elfcore.Addr(r.Process.PointerDistance-int64(tls.Bias)+tls.DTV), r.Process.PointerKnown
}

// dtv is the address of the dtv of the descriptor at pd.
func (r *Report) dtv(pd elfcore.Addr) (elfcore.Addr, bool) {
	at, ok := r.DTVPointer(pd)
	if !ok {
		return 0, false
	}
	dtv, err := r.Core.Word(at)
	return elfcore.Addr(dtv), err == nil && dtv != 0
}

// sameDTV tells whether two descriptors lead to the same thread-locals, as the
// repair remap-tls makes it.
func (r *Report) sameDTV(a, b elfcore.Addr) bool {
	first, ok1 := r.dtv(a)
	second, ok2 := r.dtv(b)
	return a != 0 && b != 0 && ok1 && ok2 && first == second
}
