package unwind

import "fmt"

// Call-frame instructions (DWARF 5, 7.24, and vendors' extensions as in
// binutils/include/dwarf2.def).
const (
	cfaAdvanceLoc = 0x40 // with the operand in the low 6 bits
	cfaOffset     = 0x80
	cfaRestore    = 0xc0

	cfaNop               = 0x00
	cfaSetLoc            = 0x01
	cfaAdvanceLoc1       = 0x02
	cfaAdvanceLoc2       = 0x03
	cfaAdvanceLoc4       = 0x04
	cfaOffsetExtended    = 0x05
	cfaRestoreExtended   = 0x06
	cfaUndefined         = 0x07
	cfaSameValue         = 0x08
	cfaRegister          = 0x09
	cfaRememberState     = 0x0a
	cfaRestoreState      = 0x0b
	cfaDefCFA            = 0x0c
	cfaDefCFARegister    = 0x0d
	cfaDefCFAOffset      = 0x0e
	cfaDefCFAExpression  = 0x0f
	cfaExpression        = 0x10
	cfaOffsetExtendedSF  = 0x11
	cfaDefCFASF          = 0x12
	cfaDefCFAOffsetSF    = 0x13
	cfaValOffset         = 0x14
	cfaValOffsetSF       = 0x15
	cfaValExpression     = 0x16
	cfaMIPSAdvanceLoc8   = 0x1d
	cfaNegateRAStatePC   = 0x2c // AArch64
	cfaNegateRAState     = 0x2d // AArch64; GNU_window_save on SPARC
	cfaGNUArgsSize       = 0x2e
	cfaGNUNegativeOffset = 0x2f
)

// maxRemembered bounds the states that a program keeps; compilers nest them
// hardly ever.
const maxRemembered = 64

// state is what the instructions have said so far.
type state struct {
	cfa    rule
	rules  [maxRegister]rule
	signed bool
}

// machine runs call-frame instructions up to an address.
type machine struct {
	*fde
	data       uint64 // base of data-relative pointers
	loc, pc    uint64
	now        state
	initial    *state
	remembered []state
}

// row runs the instructions of an FDE up to an address of its function.
func (f *fde) row(pc, header uint64) (*row, error) {
	m := &machine{fde: f, data: header, loc: f.begin, pc: pc}
	b := f.instructions
	common := cursor{b: f.cie.instructions, order: b.order, word: b.word}
	if err := m.run(&common); err != nil {
		return nil, err
	}
	initial := m.now
	m.initial = &initial
	if err := m.run(&b); err != nil {
		return nil, err
	}
	r := &row{cfa: m.now.cfa, returnColumn: f.returnColumn, signal: f.signal, signed: m.now.signed}
	for i, x := range m.now.rules {
		if x.kind != unspecified {
			r.rules = append(r.rules, registerRule{uint64(i), x})
		}
	}
	return r, nil
}

func (m *machine) run(b *cursor) error {
	for b.more() {
		op := b.u8()
		past, err := m.step(b, op)
		switch {
		case b.bad:
			return fmt.Errorf("call-frame instruction %#x is cut", op)
		case err != nil:
			return err
		case past:
			return nil
		}
	}
	return nil
}

// step runs one instruction; it tells whether what follows is about addresses
// behind the one that is asked for.
func (m *machine) step(b *cursor, op uint64) (past bool, err error) {
	operand := op & 0x3f
	switch op & 0xc0 {
	case cfaAdvanceLoc:
		return m.advance(operand), nil
	case cfaOffset:
		m.set(operand, rule{kind: savedAt, offset: m.scaled(b.uleb())})
		return false, nil
	case cfaRestore:
		m.restore(operand)
		return false, nil
	}
	switch op {
	case cfaNop:
	case cfaSetLoc:
		m.loc = b.encoded(m.encoding, m.data)
		return m.loc > m.pc, nil
	case cfaAdvanceLoc1:
		return m.advance(b.fixed(1)), nil
	case cfaAdvanceLoc2:
		return m.advance(b.fixed(2)), nil
	case cfaAdvanceLoc4:
		return m.advance(b.fixed(4)), nil
	case cfaMIPSAdvanceLoc8:
		return m.advance(b.fixed(8)), nil
	case cfaNegateRAState, cfaNegateRAStatePC:
		m.now.signed = !m.now.signed
	case cfaGNUArgsSize:
		b.uleb()
	case cfaRememberState:
		if len(m.remembered) == maxRemembered {
			return false, fmt.Errorf("call-frame instructions remember more than %d states", maxRemembered)
		}
		m.remembered = append(m.remembered, m.now)
	case cfaRestoreState:
		last := len(m.remembered) - 1
		if last < 0 {
			return false, fmt.Errorf("call-frame instructions restore a state that none remembered")
		}
		m.now, m.remembered = m.remembered[last], m.remembered[:last]
	case cfaDefCFA, cfaDefCFARegister, cfaDefCFAOffset, cfaDefCFASF, cfaDefCFAOffsetSF, cfaDefCFAExpression:
		m.defineCFA(b, op)
	default:
		return false, m.defineRegister(b, op)
	}
	return false, nil
}

func (m *machine) advance(n uint64) bool {
	m.loc += n * m.codeAlign
	return m.loc > m.pc
}

// scaled gives an offset in bytes.
func (m *machine) scaled(factored uint64) int64 { return int64(factored) * m.dataAlign }

func (m *machine) set(register uint64, r rule) {
	if register < maxRegister {
		m.now.rules[register] = r
	}
}

// restore takes a register's rule back to what the CIE says.
func (m *machine) restore(register uint64) {
	r := rule{}
	if m.initial != nil && register < maxRegister {
		r = m.initial.rules[register]
	}
	m.set(register, r)
}

// defineCFA runs the instructions for the CFA. Assemblers for RISC-V set its
// register alone, which leaves an offset of 0.
func (m *machine) defineCFA(b *cursor, op uint64) {
	cfa := &m.now.cfa
	switch op {
	case cfaDefCFA:
		*cfa = rule{kind: offsetBy, register: b.uleb(), offset: int64(b.uleb())}
	case cfaDefCFASF:
		*cfa = rule{kind: offsetBy, register: b.uleb(), offset: b.sleb() * m.dataAlign}
	case cfaDefCFARegister:
		*cfa = rule{kind: offsetBy, register: b.uleb(), offset: cfa.offset}
	case cfaDefCFAOffset:
		cfa.offset = int64(b.uleb())
	case cfaDefCFAOffsetSF:
		cfa.offset = b.sleb() * m.dataAlign
	case cfaDefCFAExpression:
		*cfa = rule{kind: valueExpr, expression: b.bytes(b.uleb())}
	}
}

func (m *machine) defineRegister(b *cursor, op uint64) error {
	register := b.uleb()
	switch op {
	case cfaOffsetExtended:
		m.set(register, rule{kind: savedAt, offset: m.scaled(b.uleb())})
	case cfaOffsetExtendedSF:
		m.set(register, rule{kind: savedAt, offset: b.sleb() * m.dataAlign})
	case cfaGNUNegativeOffset:
		m.set(register, rule{kind: savedAt, offset: -m.scaled(b.uleb())})
	case cfaRestoreExtended:
		m.restore(register)
	case cfaUndefined:
		m.set(register, rule{kind: undefined})
	case cfaSameValue:
		m.set(register, rule{kind: sameValue})
	case cfaRegister:
		m.set(register, rule{kind: inOther, register: b.uleb()})
	case cfaExpression:
		m.set(register, rule{kind: savedExpr, expression: b.bytes(b.uleb())})
	case cfaValExpression:
		m.set(register, rule{kind: valueExpr, expression: b.bytes(b.uleb())})
	case cfaValOffset:
		m.set(register, rule{kind: offsetBy, offset: m.scaled(b.uleb())})
	case cfaValOffsetSF:
		m.set(register, rule{kind: offsetBy, offset: b.sleb() * m.dataAlign})
	default:
		return fmt.Errorf("call-frame instruction %#x is not known", op)
	}
	return nil
}
