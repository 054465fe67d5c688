package prefix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func described(id int, name string, flags dataset.Flags) dataset.Dataset {
	d := dataset.New(id, name, flags, id, dataset.Owner{User: "u"}, time.Unix(int64(id), 0))
	d.SetTotals(4, 100)
	d.SetComplete(true)
	return d
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)

// order is what a job tries to restart from, one after the other.
func order(x *Index) []int {
	var list []int
	for below := 0; ; {
		e, ok := x.Next(below)
		if !ok {
			return list
		}
		list = append(list, e.ID)
		below = e.ID
	}
}

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	x, err := ReadIndex(dir)
	must(t, err)
	if x.Highest() != 0 || len(x.Entries()) != 0 || len(order(x)) != 0 {
		t.Error("an index that is not there has something")
	}
	change := func(f func(x *Index) error) *Index {
		t.Helper()
		must(t, UpdateIndex(dir, f))
		x, err := ReadIndex(dir)
		must(t, err)
		return x
	}
	expect := func(x *Index, want string) {
		t.Helper()
		if got := fmt.Sprint(order(x)); got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	}
	x = change(func(x *Index) error {
		for _, id := range []int{9, 2, 10, 4} {
			x.Add(described(id, fmt.Sprint("c", id), dataset.Checkpoint), true, noon)
		}
		x.Add(described(11, "out", dataset.Output), true, noon)
		x.Add(described(12, "half", dataset.Checkpoint), false, noon)
		return nil
	})
	expect(x, "[10 9 4 2]") // by number, without what is no checkpoint or incomplete
	if x.Highest() != 12 {
		t.Error(x.Highest())
	}
	if id, ok := x.Lookup("c9"); !ok || id != 9 {
		t.Error(id, ok)
	}
	if id, ok := x.Lookup("c"); ok || id != 0 {
		t.Error(id, ok)
	}
	x = change(func(x *Index) error { return x.SetCurrent("c4") })
	expect(x, "[4 2]") // the one asked for, and then backwards
	x = change(func(x *Index) error { x.MarkFailed(4, "a test", noon); return nil })
	expect(x, "[10 9 2]")
	if x.Current() != "" {
		t.Errorf("current is %q, which failed", x.Current())
	}
	x = change(func(x *Index) error { must(t, x.SetCurrent("c10")); x.MarkFailed(10, "a test", noon); return nil })
	if x.Current() != "c9" {
		t.Errorf("current is %q after the newest has failed", x.Current())
	}
	x = change(func(x *Index) error { must(t, x.SetCurrent("c10")); return x.SetCurrent("c4") })
	expect(x, "[4 2]") // asked for once more
	x = change(func(x *Index) error { return x.SetCurrent("half") })
	expect(x, "[10 9 4 2]")
	if err := UpdateIndex(dir, func(x *Index) error { return x.SetCurrent("none") }); err == nil {
		t.Error("a name that is not there is current")
	}
	x = change(func(x *Index) error {
		must(t, x.SetCurrent("c10"))
		x.MarkFetched(10, noon)
		x.MarkFetched(10, noon.Add(time.Second))
		if x.Remove("none") || !x.Remove("c9") {
			t.Error("Remove")
		}
		return nil
	})
	expect(x, "[10 4 2]")
	if n := x.h.Get(keyDset, "10", "FETCHED").Size(); n != 2 {
		t.Errorf("fetched %d times", n)
	}
	// A name given again takes the place of the old one; so does a number.
	x = change(func(x *Index) error {
		x.Add(described(13, "c10", dataset.Checkpoint), true, noon)
		x.Add(described(4, "four", dataset.Checkpoint), true, noon)
		return nil
	})
	expect(x, "[13 4 2]")
	if _, ok := x.Lookup("c4"); ok {
		t.Error("the old name is there")
	}
	names := []string{}
	for _, e := range x.Entries() {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "c10 half out four c2" {
		t.Error(got)
	}
	if x.Current() != "" {
		t.Errorf("current is %q, whose dataset was replaced", x.Current())
	}
	// A user who removes what he has gone back to does not want what came after it, unless nothing else is left.
	x = change(func(x *Index) error { must(t, x.SetCurrent("four")); x.Remove("four"); return nil })
	expect(x, "[2]")
	x = change(func(x *Index) error { x.Remove("c2"); return nil })
	expect(x, "[13]")
}

func TestIndex_OfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, Metadata), 0o700))
	for _, version := range []string{"", "1", "3", "x"} {
		h := hash.New()
		h.SetValue(keyVersion, version)
		h.At(keyName, "a")
		must(t, hash.WriteShared(metadataPath(dir, indexFile), h))
		if _, err := ReadIndex(dir); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("version %q: %v", version, err)
		}
		before, _ := os.ReadFile(metadataPath(dir, indexFile))
		if err := UpdateIndex(dir, func(*Index) error { return nil }); err == nil {
			t.Errorf("version %q is updated", version)
		}
		if after, _ := os.ReadFile(metadataPath(dir, indexFile)); string(after) != string(before) {
			t.Errorf("version %q was changed", version)
		}
	}
}

func TestFlushFile(t *testing.T) {
	dir := t.TempDir()
	is := func(want string) {
		t.Helper()
		var list []string
		for id := range 5 {
			for _, where := range []Location{InCache, InPrefix, Flushing} {
				l, err := located(dir, id)
				must(t, err)
				if l.Is(where) {
					list = append(list, fmt.Sprint(id, where))
				}
			}
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("flush.scr: %q, want %q", got, want)
		}
	}
	one, two, three := described(1, "a", dataset.Checkpoint), described(2, "b", dataset.Output), described(3, "c", dataset.Checkpoint)
	is("")
	must(t, Locate(dir, one, InCache, true))
	must(t, Locate(dir, one, Flushing, true))
	must(t, Locate(dir, two, InCache, true))
	is("1CACHE 1FLUSHING 2CACHE")
	must(t, Locate(dir, one, InPrefix, true))
	must(t, Locate(dir, one, Flushing, false))
	must(t, Locate(dir, two, InCache, false))
	must(t, Locate(dir, three, InCache, false)) // it is not there
	is("1CACHE 1PFS")
	must(t, Locate(dir, two, Flushing, true))
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	must(t, EnterCached(dir, Cached{Dataset: three, Protected: "XOR in sets of 4, bears 1", Read: true}, noon))
	must(t, BeginRun(dir, []Cached{{Dataset: three, Protected: "XOR in sets of 4, bears 1", Read: true}}, 10, noon.Add(time.Hour)))
	is("1PFS 3CACHE")
	if n, known := Every(dir); n != 10 || !known {
		t.Error(n, known)
	}
	// It keeps its scheme in a run that may use another one.
	if l, err := located(dir, 3); err != nil || l.Protected != "XOR in sets of 4, bears 1" || !l.Verified.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v %v", l, err)
	}
	h, err := hash.ReadFile(metadataPath(dir, flushFile))
	must(t, err)
	if got := strings.Join(h.Get("DATASET", "3").Keys(), " "); got != "CKPT DSETDESC LOCATION NAME PROTECTED VERIFIED" {
		t.Error(got)
	}
	if h.Has("DATASET", "2") {
		t.Error("dataset 2 is nowhere and has an entry")
	}
}

const samples = "../../testdata/scr-3.1/job/prefix"

func written31(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(samples)))
	return dir
}

func TestIndex_OfSCR(t *testing.T) {
	x, err := ReadIndex(written31(t))
	must(t, err)
	if got := fmt.Sprint(order(x)); got != "[5 4 2]" {
		t.Error(got)
	}
	e := x.Entries()[0]
	if e.Name != "ckpt.5" || !e.Complete || e.Failed || !e.Current || e.Flushed != "2026-11-21T00:23:45" || e.Files() != 4 || e.Size() != 16416 {
		t.Errorf("%+v", e)
	}
}

// keys returns all paths of keys in a hash; what varies is written as *.
func keys(h *hash.Hash, at string) []string {
	var list []string
	for key, under := range h.All() {
		if under.Size() == 0 {
			continue // a value
		}
		switch {
		case strings.HasSuffix(at, "/DSET") && strings.Trim(key, "0123456789") == "", strings.HasSuffix(at, "/NAME"),
			strings.HasSuffix(at, "/DATASET"), strings.HasSuffix(at, "/RANK"), strings.HasSuffix(at, "/FILE"):
			key = "*"
		}
		list = append(append(list, at+"/"+key), keys(under, at+"/"+key)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestIndex_WhatIsBeyondAWindow(t *testing.T) {
	x := &Index{h: hash.New()}
	now := time.Unix(1e9, 0)
	for id, flags := range []dataset.Flags{1: dataset.Checkpoint, 2: dataset.Output, 3: dataset.Checkpoint | dataset.Output,
		4: dataset.Checkpoint, 5: dataset.Checkpoint, 6: dataset.Checkpoint, 7: dataset.Checkpoint} {
		if id > 0 {
			x.Add(described(id, fmt.Sprint("c", id), flags), id != 6, now) // 6 is incomplete
		}
	}
	x.MarkFailed(5, "a test", now)
	for most, want := range map[int]string{1: "[6 5 4 1]", 2: "[1]", 3: "[1]", 4: "[]"} {
		var ids []int
		for _, e := range x.beyond(most) {
			ids = append(ids, e.ID)
		}
		if got := fmt.Sprint(ids); got != want {
			t.Errorf("beyond %d: %s, want %s", most, got, want)
		}
	}
	if got := fmt.Sprint(x.RemoveAfter(4)); got != "[c7 c6 c5]" || len(x.Entries()) != 4 {
		t.Errorf("%s, %d left", got, len(x.Entries()))
	}
}

// What an index that is damaged, or that another program has written, says of a dataset.
func TestDecodeEntry(t *testing.T) {
	good := Entry{Dataset: described(3, "c", dataset.Checkpoint), ID: 3, Name: "c", Complete: true}
	for name, test := range map[string]struct {
		change func(h *hash.Hash)
		want   func(e Entry) bool
	}{
		"as written":            {func(*hash.Hash) {}, func(e Entry) bool { return e.usable() && !e.Owns && e.Placing == 0 }},
		"no COMPLETE":           {func(h *hash.Hash) { h.Unset("COMPLETE") }, func(e Entry) bool { return !e.Complete }},
		"another COMPLETE":      {func(h *hash.Hash) { h.SetValue("COMPLETE", "yes") }, func(e Entry) bool { return !e.Complete }},
		"two of COMPLETE":       {func(h *hash.Hash) { h.SetKV("COMPLETE", "0") }, func(e Entry) bool { return !e.Complete }},
		"FAILED without a time": {func(h *hash.Hash) { h.Set("FAILED", nil) }, func(e Entry) bool { return e.Failed && !e.usable() }},
		"FAILED twice":          {func(h *hash.Hash) { h.SetKV("FAILED", "a"); h.SetKV("FAILED", "b") }, func(e Entry) bool { return e.Failed }},
		"PLACING of a complete": {func(h *hash.Hash) { h.At("PLACING").SetInt("RANKS", 3) }, func(e Entry) bool { return e.Placing == 0 }},
		"PLACING of too many":   {func(h *hash.Hash) { h.SetInt("COMPLETE", 0); h.At("PLACING").SetInt("RANKS", 1<<40) }, func(e Entry) bool { return e.Placing == 0 }},
		"PLACING of a word":     {func(h *hash.Hash) { h.SetInt("COMPLETE", 0); h.At("PLACING").SetValue("RANKS", "x") }, func(e Entry) bool { return e.Placing == 0 }},
		"REPLACED with a bad list": {func(h *hash.Hash) { h.At("REPLACED").SetInt("LEFT", 2); h.At("REPLACED").SetValue("LIST", "../x") },
			func(e Entry) bool { return e.Replaced != nil && e.Replaced.Left == 0 && e.Replaced.List == "" }},
		"REPLACED of a word": {func(h *hash.Hash) { h.SetValue("REPLACED", "x") }, func(e Entry) bool { return e.Replaced != nil && e.Replaced.Left == 0 }},
		"no description":     {func(h *hash.Hash) { h.Unset("DSET") }, func(e Entry) bool { return e.IsZero() && !e.usable() }},
	} {
		h := good.encode()
		test.change(h)
		if e := decodeEntry(3, h); !test.want(e) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// What a damaged flush file says of a dataset.
func TestFlushFile_Damaged(t *testing.T) {
	h := hash.New()
	e := h.At("DATASET", "3")
	e.SetValue("CKPT", "yes")
	e.SetValue("OUTPUT", "1")
	e.SetValue("RANKS", "x")
	e.SetInt("VERIFIED", -5)
	e.At("LOCATION", "ELSEWHERE")
	h.At("DATASET", "x", "LOCATION", "CACHE")
	list := hash.As[locations](h).list()
	if len(list) != 1 || list[0].Flags() != dataset.Output || list[0].Ranks != 0 || !list[0].Verified.IsZero() || !list[0].Is("ELSEWHERE") {
		t.Errorf("%+v", list)
	}
}
