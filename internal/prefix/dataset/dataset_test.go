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
	if got := strings.Join(d.Encode().Keys(), " "); got != "CKPT CLUSTER COMPLETE CREATED FILES FLAG_CKPT FLAG_OUTPUT ID JOBID JOBNAME NAME SIZE USER" {
		t.Error(got)
	}
	d = New(5, "out", Output, 3, Owner{}, now)
	if got := strings.Join(d.Encode().Keys(), " "); got != "CREATED FLAG_CKPT FLAG_OUTPUT ID NAME" {
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
	// SCR 1.1 recorded no flags.
	if old := (Dataset{}); old.Flags() != None {
		t.Error(old.Flags())
	}
	h := hash.New()
	h.SetInt("CKPT", 7)
	if old := Decode(h); old.Flags() != Checkpoint {
		t.Error(old.Flags())
	}
	if old := NewOld(7, "a"); old.Flags() != Checkpoint || !old.Created().Equal(time.UnixMicro(0)) || old.Encode().Size() != 3 {
		t.Error(old)
	}
}

// A description that was read is written again byte for byte, whichever version wrote it.
func TestEncode_KeepsWhatWasRead(t *testing.T) {
	trees := []*hash.Hash{hash.New(), New(4, "ckpt.4", Checkpoint, 3, Owner{User: "u", JobID: "1"}, time.Now()).Encode()}
	for key, values := range map[string][]string{
		"FLAG_CKPT": {"0"}, "CKPT": {"0"}, "SIZE": {"007", "-1", ""}, "FILES": {"many"}, "COMPLETE": {"2"}, "NAME": {""}, "CREATED": {"1", "2"},
		"LATER": {"x"}, "BYPASS": {"0"}, "COMPRESSED": {"1"}, "PREFIX": {"/p"}, "CACHE": {"/c"},
	} {
		h := hash.New()
		for _, value := range values {
			h.SetKV(key, value)
		}
		trees = append(trees, h)
	}
	h := hash.New()
	h.At("LATER", "a", "b")
	for _, h := range append(trees, h) {
		d := Decode(h)
		if got := d.Encode(); !got.Equal(h) {
			t.Errorf("%v is written as %v", h.Keys(), got.Keys())
		}
		if d.IsZero() != (h.Size() == 0) {
			t.Errorf("IsZero of %v is %v", h.Keys(), d.IsZero())
		}
		d.Encode().At("new") // is nobody else's
		if d.Encode().Has("new") {
			t.Error("Encode gives away what the description keeps")
		}
	}
}

func TestSame(t *testing.T) {
	now := time.Now()
	a := New(1, "a", Checkpoint, 1, Owner{}, now)
	b := a
	b.SetTotals(1, 2)
	b.SetComplete(true)
	if !a.Same(b) || a.Complete() || a.Files() != 0 {
		t.Error("a copy is another dataset, or not a copy")
	}
	for _, b := range []Dataset{{}, New(2, "a", Checkpoint, 1, Owner{}, now), New(1, "b", Checkpoint, 1, Owner{}, now), New(1, "a", Checkpoint, 1, Owner{}, now.Add(time.Second))} {
		if a.Same(b) {
			t.Errorf("%v", b)
		}
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
