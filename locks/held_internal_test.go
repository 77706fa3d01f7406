package locks

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// BenchmarkHeldScan is the rate of the loop that looks for held mutexes, on
// memory that is random, and on memory full of numbers close to thread ids.
func BenchmarkHeldScan(b *testing.B) {
	memory := make([]byte, heldChunk+64)
	random := rand.New(rand.NewPCG(1, 2))
	for name, word := range map[string]func() uint64{
		"zeroes": func() uint64 { return 0 },
		"random": random.Uint64,
		"ids":    func() uint64 { return 4000 + random.Uint64N(64) },
	} {
		for i := 0; i+8 <= len(memory); i += 8 {
			binary.LittleEndian.PutUint64(memory[i:], word())
		}
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			h := &heldSearch{
				analyzer: &analyzer{core: &elfcore.Core{ByteOrder: order}, w: 8, layout: layoutOf(8)},
				out:      &HeldMutexes{}, seen: make(map[elfcore.Addr]bool),
				owners: ownerRange{low: 4000, span: 63, threads: map[uint32]int{4000: 0, 4063: 1}},
			}
			b.Run(fmt.Sprintf("%s/%v", name, order), func(b *testing.B) {
				b.SetBytes(heldChunk)
				for b.Loop() {
					h.scan(memory, 0x10000, heldChunk)
				}
			})
		}
	}
}
