package prefix

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

func TestCondemn(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	nothing := func() {
		t.Helper()
		if name, err := Condemn(dir, now); name != "" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
	}
	nothing()
	must(t, EndRestart(dir))
	if _, err := os.Stat(filepath.Join(dir, Metadata)); !os.IsNotExist(err) {
		t.Error("that nothing is read made a directory")
	}
	one, two := described(1, "a", dataset.Checkpoint), described(2, "b", dataset.Checkpoint)
	must(t, UpdateIndex(dir, func(x *Index) error { x.Add(one, true, now); x.Add(two, true, now); return nil }))
	must(t, BeginRestart(dir, one))
	must(t, EndRestart(dir))
	nothing()
	must(t, BeginRestart(dir, one))
	must(t, BeginRestart(dir, two)) // the program went on to another
	if name, err := Condemn(dir, now); name != "b" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	nothing() // twice
	list, err := Condemned(dir)
	if err != nil || len(list) != 1 || list[2].Name != "b" || !list[2].Of(two) || list[2].Why != diedReading {
		t.Error(list, err)
	}
	x, err := ReadIndex(dir)
	must(t, err)
	if e, _ := x.Next(0); e.Name != "a" || !x.ByID(2).Failed {
		t.Errorf("next is %q", e.Name)
	}
	must(t, Forgive(dir))
	if list, err := Condemned(dir); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	must(t, os.WriteFile(metadataPath(dir, restartFile), []byte("nonsense"), 0o600))
	if _, err := Condemned(dir); err == nil {
		t.Error("no error")
	}
}

func TestReadProgress(t *testing.T) {
	dir := t.TempDir()
	at := func(newest int, latest time.Time, flushing bool) {
		t.Helper()
		p, err := ReadProgress(dir)
		if err != nil || p.Newest != newest || !p.Latest.Equal(latest) || p.Flushing != flushing {
			t.Errorf("%+v, %v; want %d %v %v", p, err, newest, latest, flushing)
		}
	}
	at(0, time.Time{}, false)
	begun := func(id int, flags dataset.Flags, second int64) dataset.Dataset {
		return dataset.New(id, "x", flags, id, dataset.Owner{}, time.Unix(second, 0))
	}
	must(t, Locate(dir, begun(4, dataset.Checkpoint, 100), InCache, true))
	at(4, time.Unix(100, 0), false)
	must(t, Locate(dir, begun(5, dataset.Output, 200), InCache, true))
	at(4, time.Unix(100, 0), false) // output is no progress
	must(t, Locate(dir, begun(5, dataset.Output, 200), Flushing, true))
	at(4, time.Unix(100, 0), true)
	must(t, BeginRun(dir, nil, 10, time.Now())) // all is lost,
	at(0, time.Time{}, false)
	must(t, Locate(dir, begun(3, dataset.Checkpoint, 300), InCache, true)) // and an older one written again
	at(3, time.Unix(300, 0), false)

	list, err := OnlyInCache(dir)
	if err != nil || len(list) != 1 || list[0] != (Unflushed{ID: 3, Name: "x", Checkpoint: true}) {
		t.Error(list, err)
	}
	must(t, Locate(dir, begun(3, dataset.Checkpoint, 300), InPrefix, true))
	if list, err := OnlyInCache(dir); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	must(t, UpdateIndex(dir, func(x *Index) error { x.Add(begun(3, dataset.Checkpoint, 300), true, time.Now()); return nil }))
	if id, err := NewestFlushed(dir); id != 3 || err != nil {
		t.Error(id, err)
	}
}
