package xor

import (
	"testing"

	"github.com/goscr/goscr/test/schemetest"
)

func TestXOR_AnyOneMemberLost(t *testing.T)   { schemetest.Run(t, Scheme(), 2, 9) }
func TestXOR_CorruptionIsFound(t *testing.T)  { schemetest.Corruption(t, Scheme()) }
func TestXOR_KilledAtAnyMessage(t *testing.T) { schemetest.Killed(t, Scheme()) }

func TestXOR_HeaderContradictsItself(t *testing.T) {
	schemetest.Header(t, Scheme(), 2)
	schemetest.Header(t, Scheme(), 4)
}

func TestXOR_ReassembledInOneProcess(t *testing.T) { schemetest.Reassemble(t, Scheme(), 2, 6) }

func TestXOR_SameBytes(t *testing.T) {
	schemetest.Format(t, Scheme(), 2, "c531c8bfbfb59a4e57453da883385857ede5ec4676348c322c7729bc06f1ade5")
	schemetest.Format(t, Scheme(), 5, "44c796234954835f0df763bcd59bab84b9bb8950f3536dae1b4aa271364f09b9")
}
