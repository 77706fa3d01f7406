package unwind

// ruleKind is how the caller's value of a register is found (DWARF 5, 6.4.1).
type ruleKind uint8

const (
	// unspecified: the information does not mention the register; the ABI
	// decides.
	unspecified ruleKind = iota
	undefined
	sameValue
	savedAt   // in memory at CFA + offset
	offsetBy  // CFA + offset; for the CFA itself, register + offset
	inOther   // in another register
	savedExpr // in memory at the address that an expression gives
	valueExpr // what an expression gives
)

// rule says how a register, or the CFA, is found.
type rule struct {
	kind       ruleKind
	register   uint64
	offset     int64
	expression []byte
}

// maxRegister bounds the DWARF numbers of registers. Those above it are vector
// and control registers, which no frame depends on.
const maxRegister = 128

// registerRule is the rule of one register.
type registerRule struct {
	register uint64
	rule
}

// row is what call-frame information says for one instruction.
type row struct {
	cfa   rule
	rules []registerRule
	// returnColumn is the register whose value in the caller is the return
	// address.
	returnColumn uint64
	// signal tells that the kernel made the frame, so that the caller was
	// interrupted and not at a call.
	signal bool
	// signed tells that the return address bears a pointer authentication
	// code.
	signed bool
}

// rule finds that of a register.
func (r *row) rule(register uint64) rule {
	for _, x := range r.rules {
		if x.register == register {
			return x.rule
		}
	}
	return rule{}
}
