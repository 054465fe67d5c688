package partner

import (
	"testing"

	"github.com/goscr/goscr/internal/redundancy/schemetest"
)

func TestPartner_AnyOneMemberLost(t *testing.T)    { schemetest.Run(t, Scheme(1), 2, 9) }
func TestPartner_AnyTwoMembersLost(t *testing.T)   { schemetest.Run(t, Scheme(2), 3, 9) }
func TestPartner_AnyThreeMembersLost(t *testing.T) { schemetest.Run(t, Scheme(3), 4, 7) }
func TestPartner_CorruptionIsFound(t *testing.T)   { schemetest.Corruption(t, Scheme(1)) }
func TestPartner_KilledAtAnyMessage(t *testing.T)  { schemetest.Killed(t, Scheme(2)) }

func TestPartner_HeaderContradictsItself(t *testing.T) {
	schemetest.Header(t, Scheme(1), 2)
	schemetest.Header(t, Scheme(2), 4)
}

func TestPartner_ReassembledInOneProcess(t *testing.T) {
	schemetest.Reassemble(t, Scheme(1), 2, 6)
	schemetest.Reassemble(t, Scheme(2), 3, 5)
}
