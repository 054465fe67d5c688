package rs

import (
	"testing"

	"github.com/goscr/goscr/internal/redundancy/schemetest"
)

func TestRS_AnyTwoMembersLost(t *testing.T)   { schemetest.Run(t, Scheme(2), 3, 9) }
func TestRS_AnyThreeMembersLost(t *testing.T) { schemetest.Run(t, Scheme(3), 4, 9) }
func TestRS_CorruptionIsFound(t *testing.T)   { schemetest.Corruption(t, Scheme(2)) }
func TestRS_KilledAtAnyMessage(t *testing.T)  { schemetest.Killed(t, Scheme(2)) }

func TestRS_HeaderContradictsItself(t *testing.T) { schemetest.Header(t, Scheme(2), 4) }

func TestRS_ReassembledInOneProcess(t *testing.T) {
	schemetest.Reassemble(t, Scheme(2), 3, 6)
	schemetest.Reassemble(t, Scheme(3), 4, 5)
}
