package rs

import (
	"testing"

	"github.com/goscr/goscr/test/schemetest"
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

func TestRS_SameBytes(t *testing.T) {
	schemetest.Format(t, Scheme(2), 5, "61dd3b6f7314e3b7ddee6b1e50f2160031aa0ac5c5cc714937369eee37cec803")
	schemetest.Format(t, Scheme(3), 6, "3d712496a433574a291f921f6c37cd97c990ecab209cb54efab3e5c16eaa4479")
}
