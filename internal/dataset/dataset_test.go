package dataset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
)

func TestNew(t *testing.T) {
	now := time.UnixMicro(1795220625617523)
	d := New(4, "ckpt.4", Checkpoint, 3, Owner{User: "u", JobID: "1", JobName: "j", Cluster: "c"}, now)
	d.SetTotals(4, 16416)
	d.SetComplete(true)
	d, err := Unpack(d.Pack(nil))
	if err != nil {
		t.Fatal(err)
	}
	if d.ID() != 4 || d.Name() != "ckpt.4" || d.Flags() != Checkpoint || d.Checkpoint() != 3 || !d.Created().Equal(now) ||
		d.Files() != 4 || d.Size() != 16416 || !d.Complete() {
		t.Errorf("%v", d)
	}
	if got := strings.Join(d.Keys(), " "); got != "CKPT CLUSTER COMPLETE CREATED FILES FLAG_CKPT FLAG_OUTPUT ID JOBID JOBNAME NAME SIZE USER" {
		t.Error(got)
	}
	d = New(5, "out", Output, 3, Owner{}, now)
	if got := strings.Join(d.Keys(), " "); got != "CREATED FLAG_CKPT FLAG_OUTPUT ID NAME" {
		t.Error(got)
	}
	if d.Checkpoint() != 0 || d.Complete() || d.Flags() != Output {
		t.Errorf("%v", d)
	}
}

func TestFlags(t *testing.T) {
	for _, f := range []Flags{None, Checkpoint, Output, Checkpoint | Output} {
		if got := New(1, "n", f, 1, Owner{}, time.Now()).Flags(); got != f {
			t.Errorf("%v is read as %v", f, got)
		}
	}
	// What older versions have written.
	old := Dataset{hash.New()}
	if old.Flags() != None {
		t.Error(old.Flags())
	}
	old.SetInt("CKPT", 7)
	if old.Flags() != Checkpoint {
		t.Error(old.Flags())
	}
}

func TestUnpack_Garbage(t *testing.T) {
	if d, err := Unpack([]byte{0, 0, 0, 9, 'x'}); err == nil {
		t.Errorf("%v", d)
	}
	var none Dataset
	if got := fmt.Sprintf("%d %q %d %d %d %v", none.ID(), none.Name(), none.Flags(), none.Size(), none.Files(), none.Complete()); got != `0 "" 0 0 0 false` {
		t.Error(got)
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "ckpt.1", "a b", "größe", "a/b", "a=b"} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "a\n", "\t", "\x00", "\x7f", "\x1b[m"} {
		if CheckName(bad) == nil {
			t.Errorf("%q is a name", bad)
		}
	}
}
