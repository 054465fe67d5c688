package partner

import (
	"testing"

	"github.com/goscr/goscr/test/schemetest"
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

func TestPartner_SameBytes(t *testing.T) {
	schemetest.Format(t, Scheme(1), 4, "67521b534abe2f108237375abd326b9bfc24eb6c8c0f50050900cc60f976a8c7")
	schemetest.Format(t, Scheme(2), 5, "543777cc6224b224a1e27a5e8d075946032f3bc72b64da8f0c07c7e514b44376")
}
