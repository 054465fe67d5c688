package filemap

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func describe(i int) meta.Meta {
	m := meta.New(fmt.Sprintf("dir/file.%d", i), meta.Full, 4)
	m.SetSize(int64(i))
	return m
}

func path(i int) string { return fmt.Sprintf("/cache/dir/file.%d", i) }

func TestMap(t *testing.T) {
	m := &Map{}
	if len(m.Datasets()) != 0 || len(m.Files(1, 2)) != 0 || !m.Meta(1, 2, "/x").IsZero() {
		t.Error("an empty map has something")
	}
	for id := 9; id <= 11; id++ {
		for rank := range 3 {
			for i := range rank {
				m.AddFile(id, rank, path(i), describe(i))
			}
			m.SetExpected(id, rank, rank, 3)
			m.SetDataset(id, rank, Description{Dataset: dataset.New(id, "n", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0))})
		}
	}
	if got := fmt.Sprint(m.Datasets(), m.Ranks(10), m.AllRanks(), m.Files(10, 2)); got != "[9 10 11] [0 1 2] [0 1 2] [/cache/dir/file.0 /cache/dir/file.1]" {
		t.Error(got)
	}
	if files, ranks := m.Expected(11, 2); files != 2 || ranks != 3 {
		t.Error(files, ranks)
	}
	if files, ranks := m.Expected(12, 2); files != -1 || ranks != -1 {
		t.Error(files, ranks)
	}
	if got := m.Meta(10, 2, path(1)); got.Size() != 1 {
		t.Error(got)
	}
	// The same through its hash.
	if again := FromHash(m.Hash()); !again.Hash().Equal(m.Hash()) {
		t.Error("FromHash differs")
	}
	two := m.Extract(2)
	if got := fmt.Sprint(two.AllRanks(), two.Datasets(), m.AllRanks()); got != "[2] [9 10 11] [0 1]" {
		t.Error(got)
	}
	m.Merge(two)
	m.RemoveFile(10, 2, path(0))
	m.RemoveRank(9, 1)
	removeDataset := func(id int) {
		for _, rank := range m.Ranks(id) {
			m.RemoveRank(id, rank)
		}
	}
	removeDataset(11)
	if got := fmt.Sprint(m.Datasets(), m.Ranks(9), m.Files(10, 2)); got != "[9 10] [0 2] [/cache/dir/file.1]" {
		t.Error(got)
	}
	removeDataset(9)
	removeDataset(10)
	if m.Hash().Size() != 0 {
		t.Errorf("left: %v", m.Hash().Keys())
	}
}

func TestFromHash_DropsWhatMakesNoSense(t *testing.T) {
	h := hash.New()
	for _, rank := range []string{"0", "-1", "x", ""} {
		for _, id := range []string{"1", "-2", "y"} {
			for _, path := range []string{"/abs", "rel", "../rel", ""} {
				h.At("RANK", rank, "DSET", id, "FILE", path, "META")
			}
		}
	}
	m := FromHash(h)
	if got := fmt.Sprint(m.AllRanks(), m.Datasets(), m.Files(1, 0)); got != "[0] [1] [/abs]" {
		t.Error(got)
	}
	if m.Hash().Get("RANK").Size() != 1 {
		t.Error(m.Hash().Get("RANK").Keys())
	}
}

// Wherever the writing of a journal is cut off, all files entered before are
// there, and more can be entered.
func TestStore_JournalCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	must(t, s.AddFile(1, 0, path(0), describe(0)))
	must(t, s.Fold())
	var ends []int64
	for i := 1; i <= 5; i++ {
		must(t, s.AddFile(1, 0, path(i), describe(i)))
		ends = append(ends, s.good)
	}
	journal := s.journalPath()
	must(t, s.Close())
	data, err := os.ReadFile(journal)
	must(t, err)
	if int64(len(data)) != ends[len(ends)-1] {
		t.Fatalf("journal of %d bytes, %d are good", len(data), ends)
	}
	for cut := range len(data) + 1 {
		for _, garbage := range []int{0, 1, 20} {
			damaged := append(slices.Clone(data[:cut]), bytes.Repeat([]byte{0xa5}, garbage)...)
			must(t, os.WriteFile(journal, damaged, 0o600))
			s, err := OpenStore(at)
			must(t, err)
			want := 1
			for _, end := range ends {
				if end <= int64(cut) {
					want++
				}
			}
			if got := len(s.Files(1, 0)); got != want {
				t.Fatalf("cut at %d: %d files, want %d", cut, got, want)
			}
			for i := range want {
				if !slices.Contains(s.Files(1, 0), path(i)) {
					t.Fatalf("cut at %d: file %d is lost", cut, i)
				}
			}
			must(t, s.AddFile(1, 0, path(99), describe(99)))
			must(t, s.Close())
			s, err = OpenStore(at)
			must(t, err)
			if !slices.Contains(s.Files(1, 0), path(99)) || len(s.Files(1, 0)) != want+1 {
				t.Fatalf("cut at %d: what was entered afterwards is lost", cut)
			}
		}
	}
}

func TestStore_JournalWithFlippedBit(t *testing.T) {
	at := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	var ends []int64
	for i := range 4 {
		must(t, s.AddFile(1, 0, path(i), describe(i)))
		ends = append(ends, s.good)
	}
	must(t, s.Close())
	data, err := os.ReadFile(s.journalPath())
	must(t, err)
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 0x40
		must(t, os.WriteFile(s.journalPath(), damaged, 0o600))
		again, err := OpenStore(at)
		must(t, err)
		want := slices.IndexFunc(ends, func(end int64) bool { return end > int64(i) })
		if got := len(again.Files(1, 0)); got != want {
			t.Fatalf("bit flipped at byte %d: %d files, want %d", i, got, want)
		}
	}
}

// state copies the files of a store as a kill would leave them.
func state(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	files := map[string][]byte{}
	for _, f := range found {
		files[filepath.Base(f)], err = os.ReadFile(f)
		must(t, err)
	}
	return files
}

// Fold replaces the hash file and then removes the journal. A kill leaves any
// of the states in between, and a temporary file of any length.
func TestStore_KilledWhileFolding(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	for i := range 3 {
		must(t, s.AddFile(1, 0, path(i), describe(i)))
	}
	before := state(t, dir)
	s.Map.RemoveFile(1, 0, path(0))
	must(t, s.Fold())
	after := state(t, dir)

	check := func(what string, files map[string][]byte, want int) {
		t.Helper()
		killed := t.TempDir()
		for name, data := range files {
			must(t, os.WriteFile(filepath.Join(killed, name), data, 0o600))
		}
		s, err := OpenStore(filepath.Join(killed, "filemap_0.scrinfo"))
		must(t, err)
		if got := len(s.Files(1, 0)); got != want {
			t.Errorf("%s: %d files, want %d", what, got, want)
		}
		must(t, s.AddFile(2, 0, path(7), describe(7)))
		must(t, s.Close())
		s, err = OpenStore(filepath.Join(killed, "filemap_0.scrinfo"))
		must(t, err)
		if got := len(s.Files(1, 0)); got != want || len(s.Files(2, 0)) != 1 {
			t.Errorf("%s: %d files, want %d, after another was entered", what, got, want)
		}
		must(t, s.Fold())
	}
	check("before", before, 3)
	check("after", after, 2)
	replacing := map[string][]byte{"filemap_0.scrinfo.tmp": after["filemap_0.scrinfo"][:10]}
	for name, data := range before {
		replacing[name] = data
	}
	check("while the new file is written", replacing, 3)
	replaced := map[string][]byte{"filemap_0.scrinfo": after["filemap_0.scrinfo"]}
	for name, data := range before {
		if name != "filemap_0.scrinfo" {
			replaced[name] = data
		}
	}
	if len(replaced) != 2 {
		t.Fatalf("no journal in %d files", len(replaced))
	}
	check("before the old journal is removed", replaced, 2)
}

// A journal that a killed Fold left must not be taken for a later one of the
// same number, when the filemap was started from the beginning in between.
func TestStore_OldJournalIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	for i := range 5 {
		must(t, s.AddFile(1, 0, path(i), describe(i)))
		must(t, s.Fold())
	}
	must(t, s.AddFile(1, 0, "/cache/old", describe(1)))
	journal := s.journalPath()
	left, err := os.ReadFile(journal)
	must(t, err)
	must(t, s.Fold())
	must(t, os.WriteFile(journal, left, 0o600)) // as a kill leaves it
	must(t, RemoveStore(at))
	s, err = OpenStore(at)
	must(t, err)
	for range 12 {
		must(t, s.Fold())
		again, err := OpenStore(at)
		must(t, err)
		if got := again.Files(1, 0); len(got) != 0 {
			t.Fatalf("the filemap was begun again and has %v", got)
		}
	}
}

// A file that was complete and is entered again is not complete any more,
// before and after a kill.
func TestStore_FileEnteredAgain(t *testing.T) {
	at := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	m := describe(10)
	m.SetComplete(true)
	must(t, s.AddFile(1, 0, path(0), m))
	must(t, s.Fold())
	m = describe(20)
	must(t, s.AddFile(1, 0, path(0), m))
	must(t, s.Close())
	again, err := OpenStore(at)
	must(t, err)
	for _, s := range []*Store{s, again} {
		if got := s.Meta(1, 0, path(0)); got.Complete() || got.Size() == 10 || len(s.Files(1, 0)) != 1 {
			t.Errorf("%d bytes, complete %q", got.Size(), got.Hash().Get("COMPLETE").Keys())
		}
	}
}

func TestStore_Corrupt(t *testing.T) {
	at := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	must(t, s.AddFile(1, 0, path(0), describe(0)))
	must(t, s.Close())
	data, err := os.ReadFile(at)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(at, data, 0o600))
	if _, err := OpenStore(at); !errors.Is(err, hash.ErrCorrupt) {
		t.Errorf("corrupt filemap: %v", err)
	}
	must(t, RemoveStore(at))
	s, err = OpenStore(at)
	must(t, err)
	if len(s.Files(1, 0)) != 0 {
		t.Error("files are left")
	}
	must(t, RemoveStore(at)) // it is not there
}

// The bytes that AddFile writes and the memory it takes for a file do not grow
// with the number of files.
func TestStore_CostOfAFileIsConstant(t *testing.T) {
	at := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(at)
	must(t, err)
	i := 100_000 // names of one length
	add := func(n int) (bytes int64, allocations float64) {
		begin := s.good
		// Growing of slices comes now and then, but not in most calls.
		allocations = testing.AllocsPerRun(n-1, func() {
			if err := s.AddFile(1, 0, path(i), describe(5)); err != nil {
				t.Fatal(err)
			}
			i++
		})
		return (s.good - begin) / int64(n), allocations
	}
	firstBytes, first := add(200)
	add(5000)
	lastBytes, last := add(200)
	if lastBytes != firstBytes {
		t.Errorf("%d bytes a file at first, %d later", firstBytes, lastBytes)
	}
	if last > first+3 {
		t.Errorf("%v allocations a file at first, %v later", first, last)
	}
	must(t, s.Close())
	info, err := os.Stat(at)
	must(t, err)
	if info.Size() > 4096 {
		t.Errorf("the hash file has %d bytes: files went to it one by one", info.Size())
	}
}

// files are all files of a map.
func files(m *Map) string {
	var list []string
	for _, id := range m.Datasets() {
		for _, rank := range m.Ranks(id) {
			list = append(list, fmt.Sprint(id, rank, m.Files(id, rank)))
		}
	}
	return fmt.Sprint(list)
}

// A journal of any history is read back to the files there were.
func TestStore_AnyHistory(t *testing.T) {
	const seed = 3
	for round := range 50 {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		at := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
		s, err := OpenStore(at)
		must(t, err)
		for range 40 {
			id, rank, i := random.IntN(3), random.IntN(3), random.IntN(6)
			switch random.IntN(6) {
			case 0:
				s.Map.RemoveFile(id, rank, path(i))
				must(t, s.Fold())
			case 1:
				s.Map.RemoveRank(id, rank)
				must(t, s.Fold())
			case 2:
				must(t, s.Close())
				again, err := OpenStore(at)
				must(t, err)
				if files(&again.Map) != files(&s.Map) {
					t.Fatalf("seed %d, round %d: %s is read back as %s", seed, round, files(&s.Map), files(&again.Map))
				}
				s = again
			default:
				must(t, s.AddFile(id, rank, path(i), describe(random.IntN(100))))
			}
		}
		must(t, s.Close())
	}
}

func TestWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	must(t, os.WriteFile(file, []byte("12345"), 0o600))
	md := meta.New("f", meta.Full, 1)
	m := &Map{}
	if m.Whole(1, 0) {
		t.Error("nothing known is whole")
	}
	m.AddFile(1, 0, file, md)
	m.SetExpected(1, 0, 1, 1)
	if m.Whole(1, 0) {
		t.Error("a file that was not completed is whole")
	}
	md.SetSize(5)
	md.SetComplete(true)
	if !m.Whole(1, 0) {
		t.Error("not whole")
	}
	m.SetExpected(1, 0, 2, 1)
	if m.Whole(1, 0) {
		t.Error("one of two files is whole")
	}
	m.SetExpected(1, 0, 1, 1)
	must(t, os.Truncate(file, 4))
	if m.Whole(1, 0) {
		t.Error("a file that is too short is whole")
	}
}

func FuzzReplay(f *testing.F) {
	dir := f.TempDir()
	s, err := OpenStore(filepath.Join(dir, "x"))
	must(f, err)
	must(f, s.AddFile(1, 0, path(1), describe(1)))
	must(f, s.AddFile(2, 3, path(2), describe(2)))
	data, err := os.ReadFile(s.journalPath())
	must(f, err)
	f.Add(data)
	f.Add(data[:20])
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Store{}
		s.replay(data)
		if s.good > int64(len(data)) || s.good < 0 {
			t.Fatalf("%d of %d bytes are good", s.good, len(data))
		}
		again := &Store{}
		again.replay(data[:s.good])
		if again.good != s.good || !again.Hash().Equal(s.Hash()) {
			t.Fatal("the good part alone is read differently")
		}
		for _, id := range s.Datasets() {
			for _, rank := range s.Ranks(id) {
				for _, p := range s.Files(id, rank) {
					if !filepath.IsAbs(p) {
						t.Fatalf("file %q", p)
					}
				}
			}
		}
	})
}

// A file that is entered as complete is so after a kill, with its description;
// one that is not is no more than a name.
func TestStore_CompleteFileInTheJournal(t *testing.T) {
	at := filepath.Join(t.TempDir(), "map")
	s, err := OpenStore(at)
	if err != nil {
		t.Fatal(err)
	}
	done, begun := meta.New("done", meta.Full, 1), meta.New("begun", meta.Full, 1)
	done.SetSize(17)
	done.SetCRC(3)
	begun.SetSize(18)
	begun.SetComplete(false)
	for _, md := range []meta.Meta{done, begun} {
		if err := s.AddFile(5, 1, "/"+md.File(), md); err != nil {
			t.Fatal(err)
		}
	}
	done.SetComplete(true)
	if err := errors.Join(s.AddFile(5, 1, "/done", done), s.Sync(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenStore(at); err != nil {
		t.Fatal(err)
	}
	if got := s.Files(5, 1); len(got) != 2 {
		t.Fatalf("files %v", got)
	}
	if !s.Meta(5, 1, "/done").Hash().Equal(done.Hash()) {
		t.Errorf("%v", s.Meta(5, 1, "/done"))
	}
	if s.Meta(5, 1, "/begun").Complete() {
		t.Errorf("%v", s.Meta(5, 1, "/begun"))
	}
}

func TestCheckData(t *testing.T) {
	dir := t.TempDir()
	m := &Map{}
	add := func(name, kind string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte("12345"), 0o600))
		md := meta.New(name, kind, 1)
		md.SetSize(5)
		md.SetComplete(true)
		m.AddFile(1, 0, path, md)
		return path
	}
	is := func(what string, want map[int]bool) { // by the number of redundancy files
		t.Helper()
		for made, whole := range want {
			if err := m.CheckData(1, 0, made); (err == nil) != whole {
				t.Errorf("%s, %d redundancy files: %v", what, made, err)
			}
		}
	}
	is("nothing known", map[int]bool{-1: false, 0: false, 1: false})
	own, made := add("own", meta.Full), add("made", meta.XOR)
	is("not completed", map[int]bool{-1: false, 0: false, 1: false})
	m.SetExpected(1, 0, 2, 1)
	is("all", map[int]bool{-1: true, 0: false, 1: true})
	must(t, os.Remove(made))
	is("redundancy gone", map[int]bool{-1: true, 1: true})
	m.RemoveFile(1, 0, made)
	is("its entry, too", map[int]bool{-1: false, 0: false, 1: true})
	must(t, os.Truncate(own, 4))
	is("data too short", map[int]bool{-1: false, 0: false, 1: false})
	m.RemoveFile(1, 0, own)
	is("no data", map[int]bool{-1: false, 0: false, 1: false})
}

// A filemap in which nothing has changed is not written: the storage may be full.
func TestStore_UnchangedIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(path)
	must(t, err)
	s.SetDataset(1, 0, Description{Dataset: dataset.New(1, "one", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0))})
	must(t, s.Fold())
	must(t, s.AddFile(1, 0, "/dir/file", describe(1))) // in the journal
	must(t, s.Close())
	before, err := os.Lstat(path)
	must(t, err)
	written := func() bool {
		t.Helper()
		must(t, s.Fold())
		after, err := os.Lstat(path)
		must(t, err)
		return !os.SameFile(before, after)
	}
	s, err = OpenStore(path)
	must(t, err)
	again := s.Meta(1, 0, "/dir/file")
	s.RemoveFile(1, 0, "/dir/file")
	s.Map.AddFile(1, 0, "/dir/file", again)
	if written() {
		t.Error("written, and nothing has changed")
	}
	s.RemoveFile(1, 0, "/dir/file")
	if !written() {
		t.Error("a change is not written")
	}
	s, err = OpenStore(path)
	must(t, err)
	if got := s.Files(1, 0); len(got) != 0 {
		t.Errorf("%s are there after they were removed", got)
	}
}

// The program has closed a descriptor while a file is registered: what it writes there does not
// come into the journal.
func TestJournal_Descriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filemap_0.scrinfo")
	s, err := OpenStore(path)
	must(t, err)
	must(t, s.Fold())
	kept, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 100)
	must(t, err)
	defer func() { must(t, errors.Join(unix.Dup3(kept, 0, 0), unix.Close(kept))) }()
	must(t, unix.Close(0))
	must(t, s.AddFile(1, 0, "/cache/a", describe(1)))
	if n, err := unix.Write(0, []byte("output of the program")); err == nil {
		t.Errorf("%d bytes were written to a descriptor that the program has closed", n)
	}
	again, err := OpenStore(path)
	must(t, err)
	if got := again.Files(1, 0); len(got) != 1 {
		t.Errorf("the filemap has %q", got)
	}
}
