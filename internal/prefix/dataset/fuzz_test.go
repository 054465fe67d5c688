package dataset

import (
	"testing"
	"time"
)

// Any description that can be read is the same after it was written and read again.
func FuzzUnpack(f *testing.F) {
	f.Add(New(3, "ckpt.3", Checkpoint|Output, 2, Owner{User: "u", JobName: "n", JobID: "7", Cluster: "c"}, time.Unix(1e9, 0)).Pack(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, packed []byte) {
		d, err := Unpack(packed)
		if err != nil {
			return
		}
		again, err := Unpack(d.Pack(nil))
		if err != nil || !again.Encode().Equal(d.Encode()) || again.ID() != d.ID() || again.Name() != d.Name() || again.Flags() != d.Flags() {
			t.Fatalf("%v is read as %v (%v)", d, again, err)
		}
	})
}
