package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Bounds of an expression: those of call-frame information have a dozen
// operations.
const (
	maxOperations = 1000
	maxDepth      = 64
)

// Operations of DWARF expressions (DWARF 5, 7.7.1).
const (
	opAddr       = 0x03
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opConst2u    = 0x0a
	opConst2s    = 0x0b
	opConst4u    = 0x0c
	opConst4s    = 0x0d
	opConst8u    = 0x0e
	opConst8s    = 0x0f
	opConstu     = 0x10
	opConsts     = 0x11
	opDup        = 0x12
	opDrop       = 0x13
	opOver       = 0x14
	opPick       = 0x15
	opSwap       = 0x16
	opRot        = 0x17
	opAbs        = 0x19
	opAnd        = 0x1a
	opDiv        = 0x1b
	opMinus      = 0x1c
	opMod        = 0x1d
	opMul        = 0x1e
	opNeg        = 0x1f
	opNot        = 0x20
	opOr         = 0x21
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opShr        = 0x25
	opShra       = 0x26
	opXor        = 0x27
	opBra        = 0x28
	opEq         = 0x29
	opGe         = 0x2a
	opGt         = 0x2b
	opLe         = 0x2c
	opLt         = 0x2d
	opNe         = 0x2e
	opSkip       = 0x2f
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
	opDerefSize  = 0x94
	opNop        = 0x96
)

// evaluator runs the DWARF expressions of call-frame information: both byte
// orders, and with bounds, since a branch can go backwards.
type evaluator struct {
	order    binary.ByteOrder
	word     int
	register func(number uint64) (uint64, bool)
	memory   func(at uint64, size int) (uint64, error)

	code  cursor
	stack []uint64
}

var errExpression = errors.New("a DWARF expression is damaged")

// run gives the value of an expression that starts with what is on the stack.
func (e *evaluator) run(expression []byte, stack ...uint64) (uint64, error) {
	e.code = cursor{b: expression, order: e.order, word: e.word}
	e.stack = append(e.stack[:0], stack...)
	for n := 0; e.code.more(); n++ {
		if n == maxOperations {
			return 0, fmt.Errorf("a DWARF expression takes more than %d operations", maxOperations)
		}
		if err := e.step(e.code.u8()); err != nil {
			return 0, err
		}
		if e.code.bad || len(e.stack) > maxDepth {
			return 0, errExpression
		}
	}
	if len(e.stack) == 0 {
		return 0, errExpression
	}
	return e.trim(e.stack[len(e.stack)-1]), nil
}

// trim cuts a value to the size of an address, which all values have.
func (e *evaluator) trim(v uint64) uint64 {
	if e.word == 4 {
		v &= math.MaxUint32
	}
	return v
}

func (e *evaluator) push(v uint64) { e.stack = append(e.stack, e.trim(v)) }

// pop takes one value; of an empty stack it is 0, and the expression is bad.
func (e *evaluator) pop() uint64 {
	n := len(e.stack) - 1
	if n < 0 {
		e.code.bad = true
		return 0
	}
	v := e.stack[n]
	e.stack = e.stack[:n]
	return v
}

// pick copies a value from below the top.
func (e *evaluator) pick(depth uint64) {
	if depth >= uint64(len(e.stack)) {
		e.code.bad = true
		return
	}
	e.push(e.stack[uint64(len(e.stack))-1-depth])
}

func (e *evaluator) step(op uint64) error {
	c := &e.code
	switch {
	case op >= opLit0 && op <= opLit31:
		e.push(op - opLit0)
		return nil
	case op >= opBreg0 && op <= opBreg31:
		return e.based(op - opBreg0)
	}
	switch op {
	case opAddr:
		e.push(c.addr())
	case opConst1u, opConst2u, opConst4u, opConst8u:
		e.push(c.fixed(1 << ((op - opConst1u) / 2)))
	case opConst1s, opConst2s, opConst4s, opConst8s:
		e.push(c.signed(1 << ((op - opConst1s) / 2)))
	case opConstu:
		e.push(c.uleb())
	case opConsts:
		e.push(uint64(c.sleb()))
	case opBregx:
		return e.based(c.uleb())
	case opDeref:
		return e.load(e.word)
	case opDerefSize:
		size := int(c.u8())
		if size != 1 && size != 2 && size != 4 && size != 8 || size > e.word {
			return errExpression
		}
		return e.load(size)
	case opDup:
		e.pick(0)
	case opDrop:
		e.pop()
	case opOver:
		e.pick(1)
	case opPick:
		e.pick(c.u8())
	case opSwap:
		a, b := e.pop(), e.pop()
		e.push(a)
		e.push(b)
	case opRot:
		a, b, d := e.pop(), e.pop(), e.pop()
		e.push(a)
		e.push(d)
		e.push(b)
	case opPlusUconst:
		e.push(e.pop() + c.uleb())
	case opSkip, opBra:
		return e.branch(op == opBra)
	case opNop:
	case opAbs, opNeg, opNot:
		e.push(unary(op, extend(e.pop(), e.word)))
	default:
		return e.binary(op)
	}
	return nil
}

// based pushes a register plus an offset.
func (e *evaluator) based(register uint64) error {
	offset := e.code.sleb()
	v, ok := e.register(register)
	if !ok {
		return fmt.Errorf("a DWARF expression needs register %d, which is not known", register)
	}
	e.push(v + uint64(offset))
	return nil
}

func (e *evaluator) load(size int) error {
	v, err := e.memory(e.pop(), size)
	e.push(v)
	return err
}

func (e *evaluator) branch(conditional bool) error {
	to := int64(e.code.signed(2))
	if conditional && e.pop() == 0 {
		return nil
	}
	to += int64(e.code.pos)
	if to < 0 || to > int64(len(e.code.b)) {
		return errExpression
	}
	e.code.pos = int(to)
	return nil
}

func unary(op, v uint64) uint64 {
	switch {
	case op == opNot:
		return ^v
	case op == opNeg || int64(v) < 0:
		return -v
	}
	return v
}

// binary does arithmetic on the two topmost values. Comparisons and divisions
// are of signed numbers, other than those of opMod and opShr.
func (e *evaluator) binary(op uint64) error {
	b, a := e.pop(), e.pop()
	x, y := int64(extend(a, e.word)), int64(extend(b, e.word))
	truth := func(is bool) {
		if is {
			e.push(1)
		} else {
			e.push(0)
		}
	}
	switch op {
	case opAnd:
		e.push(a & b)
	case opOr:
		e.push(a | b)
	case opXor:
		e.push(a ^ b)
	case opPlus:
		e.push(a + b)
	case opMinus:
		e.push(a - b)
	case opMul:
		e.push(a * b)
	case opDiv, opMod:
		if b == 0 {
			return errExpression
		}
		if op == opMod {
			e.push(a % b)
		} else {
			e.push(uint64(x / y))
		}
	case opShl:
		e.push(a << b)
	case opShr:
		e.push(a >> b)
	case opShra:
		e.push(uint64(x >> b))
	case opEq:
		truth(x == y)
	case opNe:
		truth(x != y)
	case opGe:
		truth(x >= y)
	case opGt:
		truth(x > y)
	case opLe:
		truth(x <= y)
	case opLt:
		truth(x < y)
	default:
		return fmt.Errorf("operation %#x of a DWARF expression is not known", op)
	}
	return nil
}
