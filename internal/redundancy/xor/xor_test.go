package xor

import (
	"testing"

	"github.com/goscr/goscr/internal/redundancy/schemetest"
)

func TestXOR_AnyOneMemberLost(t *testing.T)   { schemetest.Run(t, Scheme(), 2, 9) }
func TestXOR_CorruptionIsFound(t *testing.T)  { schemetest.Corruption(t, Scheme()) }
func TestXOR_KilledAtAnyMessage(t *testing.T) { schemetest.Killed(t, Scheme()) }

func TestXOR_HeaderContradictsItself(t *testing.T) {
	schemetest.Header(t, Scheme(), 2)
	schemetest.Header(t, Scheme(), 4)
}

func TestXOR_ReassembledInOneProcess(t *testing.T) { schemetest.Reassemble(t, Scheme(), 2, 6) }
