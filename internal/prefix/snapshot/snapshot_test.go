package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var when = time.UnixMicro(1_700_000_000_000_000)

func ckpt(id int) dataset.Dataset {
	return dataset.New(id, fmt.Sprint("ckpt.", id), dataset.Checkpoint, id, dataset.Owner{}, when.Add(time.Duration(id)*time.Second))
}

// enter enters a checkpoint in the index of a prefix directory.
func enter(t *testing.T, dir string, id int, complete bool) {
	t.Helper()
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error { x.Add(ckpt(id), complete, when); return nil }))
}

func facts() *Facts {
	return &Facts{Version: "v", Job: "17", User: "me", Cluster: "c", Name: "heat", Prefix: "/p", Manager: "Slurm", Ranks: 6, Modules: "a:b",
		Nodes:    []Node{{"n1", 4}, {"n2", 2}},
		Launcher: &Start{[]string{"mpirun", "-n", "4", "./a b", "", "x=y", ":", "./c"}, "/work"}, Runner: &Start{[]string{"scr_run", "mpirun"}, "/"},
		Programs: []Program{{First: 0, Ranks: 4, Start: Start{[]string{"./a b", "", "x=y"}, "/work"}, Environ: []string{"A=1", "B=", "C=a=b\nc"}},
			{First: 4, Ranks: 2, Start: Start{[]string{"./c"}, "/else"}}}}
}

func find(t *testing.T, dir string, id int) Snapshot {
	t.Helper()
	list, err := List(dir)
	must(t, err)
	i := slices.IndexFunc(list, func(s Snapshot) bool { return s.Seq == id })
	if i < 0 {
		t.Fatalf("no checkpoint %d in %+v", id, list)
	}
	return list[i]
}

func filesOf(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(factsPath(dir, "*"))
	must(t, err)
	return len(files)
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	for id := 1; id <= 3; id++ {
		enter(t, dir, id, true)
		kept, err := facts().Store(dir) // the same each time
		must(t, err)
		must(t, kept.Refer(ckpt(id), when.Add(time.Hour), map[int]string{2: "./again  'a b'", 3: "./again --password abc"}[id]))
	}
	if n := filesOf(t, dir); n != 3 { // two programs, and the rest
		t.Errorf("%d files", n)
	}
	r, err := Read(dir, find(t, dir, 2))
	must(t, err)
	if !reflect.DeepEqual(r.Facts, *facts()) {
		t.Errorf("%+v\nwant\n%+v", r.Facts, *facts())
	}
	if one, err := Read(dir, find(t, dir, 1)); err != nil || one.Command != "" {
		t.Errorf("%+v, %v", one, err)
	}
	if one, err := Read(dir, find(t, dir, 3)); err != nil || one.Command != "./again --password "+Withheld {
		t.Errorf("a command with a secret is recorded as %q, %v", one.Command, err)
	}
	if r.Seq != 2 || r.Name != "ckpt.2" || r.Command != "./again  'a b'" || !r.Begun.Equal(ckpt(2).Created()) || !r.Ended.Equal(when.Add(time.Hour)) {
		t.Errorf("%+v", r)
	}
	other := facts()
	other.Programs[1].Argv = []string{"./d"}
	kept, err := other.Store(dir)
	must(t, err)
	enter(t, dir, 4, true)
	must(t, kept.Refer(ckpt(4), when, ""))
	if n := filesOf(t, dir); n != 5 {
		t.Errorf("%d files after a run that differs in one program", n)
	}
	enter(t, dir, 9, true)
	if _, err := Read(dir, find(t, dir, 9)); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	again := dataset.New(3, "ckpt.3", dataset.Checkpoint, 3, dataset.Owner{}, when.Add(time.Hour))
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error { x.Add(again, true, when); return nil }))
	if _, err := Read(dir, find(t, dir, 3)); !errors.Is(err, ErrNone) {
		t.Error("the record of an earlier checkpoint of the same id is read:", err)
	}
	// Damage.
	must(t, os.WriteFile(factsPath(dir, kept.name), []byte("x"), 0o600))
	if _, err := Read(dir, find(t, dir, 4)); !errors.Is(err, hash.ErrCorrupt) {
		t.Error(err)
	}
	must(t, hash.Update(metadata(dir, recordsFile), func(h *hash.Hash) error {
		h.GetKVInt("DATASET", 2).SetValue("FACTS", "../../x")
		return nil
	}))
	if _, err := Read(dir, find(t, dir, 2)); err == nil || !strings.Contains(err.Error(), "is not the name of a record") {
		t.Error(err)
	}
}

// What belongs to checkpoints that are gone does not pile up.
func TestRefer_Prunes(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	for id := 1; id <= 64; id++ {
		f := facts()
		f.Job = fmt.Sprint(id)
		kept, err := f.Store(dir)
		must(t, err)
		if id%16 == 0 {
			enter(t, dir, id, true)
		}
		must(t, kept.Refer(ckpt(id), when, ""))
	}
	h, err := hash.ReadFile(metadata(dir, recordsFile))
	must(t, err)
	if n := h.Get("DATASET").Size(); n >= 64 {
		t.Errorf("%d entries", n)
	}
	for _, id := range []int{16, 32, 48, 64} {
		if r, err := Read(dir, find(t, dir, id)); err != nil || r.Job != fmt.Sprint(id) {
			t.Errorf("%d: %+v, %v", id, r, err)
		}
	}
	if n := filesOf(t, dir); n >= 66 {
		t.Errorf("%d files", n)
	}
}

// While a job has stored its facts and not yet written a checkpoint, another one in the same
// prefix directory removes what no checkpoint refers to.
func TestRefer_TwoJobs(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	first := facts()
	first.Programs[0].Argv = []string{"./first"}
	kept, err := first.Store(dir)
	must(t, err)
	for id := 1; id <= least; id++ {
		other := facts()
		other.Job = "18"
		more, err := other.Store(dir)
		must(t, err)
		must(t, more.Refer(ckpt(id), when, ""))
	}
	if _, err := os.Stat(factsPath(dir, kept.name)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("nothing was removed, so this test shows nothing: %v", err)
	}
	enter(t, dir, 100, true)
	must(t, kept.Refer(ckpt(100), when, ""))
	r, err := Read(dir, find(t, dir, 100))
	must(t, err)
	if !reflect.DeepEqual(r.Facts, *first) {
		t.Errorf("%+v", r.Facts)
	}
}

// Jobs that write checkpoints at the same time: each finds its own facts, at any time.
func TestRefer_AtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	const jobs, each = 4, 20 // more than two times least
	failed := make(chan error, jobs)
	for job := range jobs {
		go func() {
			failed <- func() error {
				for i := range each {
					f := facts()
					f.Job = fmt.Sprint(job, ".", i)
					kept, err := f.Store(dir)
					if err != nil {
						return err
					}
					d := ckpt(1 + job + jobs*i)
					if err := prefix.Locate(dir, d, prefix.InCache, true); err != nil {
						return err
					}
					if err := kept.Refer(d, when, ""); err != nil {
						return err
					}
					r, err := Read(dir, Snapshot{Seq: d.ID(), Name: d.Name(), Created: d.Created()})
					if err != nil || r.Job != f.Job {
						return fmt.Errorf("job %d, checkpoint %d: %+v, %v", job, d.ID(), r, err)
					}
				}
				return nil
			}()
		}()
	}
	for range jobs {
		must(t, <-failed)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for id := 1; id <= 4; id++ {
		enter(t, dir, id, id != 3)
	}
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error {
		x.Add(dataset.New(5, "output", dataset.Output, 0, dataset.Owner{}, when), true, when)
		x.MarkFailed(4, "it was bad", when)
		return x.SetCurrent("ckpt.1")
	}))
	for _, id := range []int{2, 3, 6} {
		must(t, prefix.Locate(dir, ckpt(id), prefix.InCache, true))
	}
	list, err := List(dir)
	must(t, err)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprint(s.Seq, s.InCache, s.InPrefix, s.Current, s.Problem))
	}
	want := []string{"6 true false false ", "4 false true false a restart from it has failed", "3 true false false ", "2 true true false ", "1 false true true "}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], " ", "")
		if i < len(got) {
			got[i] = strings.ReplaceAll(got[i], " ", "")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestFilter_Environ(t *testing.T) {
	got := keepEnviron([]string{"PATH=/bin", "HOME=/root", "OMP_NUM_THREADS=4", "SCR_FLUSH=1", "SCR_PREFIX=/p", "SCR_LOG_DB_PASS=x", "MY_OPTION=1",
		"MY_API_KEY=x", "MY_TOKEN=1", "OMP_SECRET=x", "LC_ALL=C", "OMPI_MCA_btl=self", "OMPI_MCA_ess_base_vpid=3", "AWS_SECRET_ACCESS_KEY=x",
		"MPICH_URL=https://me:word@host/", "FI_AUTH=x", "UCX_PASSWORD=x", "=x", "MY_KEYBOARD=us", "MY_AUTHOR=me"}, []string{"MY_*"})
	want := []string{"LC_ALL=C", "MY_AUTHOR=me", "MY_KEYBOARD=us", "MY_OPTION=1", "OMPI_MCA_btl=self", "OMP_NUM_THREADS=4", "PATH=/bin", "SCR_FLUSH=1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestFilter_Words(t *testing.T) {
	for line, want := range map[string]string{
		"./app -n 4 --passes 3 --monkey 2":  "./app -n 4 --passes 3 --monkey 2",
		"./app --password x -v":             "./app --password <withheld> -v",
		"./app --token=x y":                 "./app --token=<withheld> y",
		"./app API_KEY=x":                   "./app API_KEY=<withheld>",
		"./app --password -v":               "./app --password -v",
		"./app http://me:word@host/x a:b@c": "./app <withheld> a:b@c",
		"./app --db=pg://me:word@host":      "./app <withheld>",
	} {
		if got := strings.Join(keepWords(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestGather(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			_, err := local.Run(size, local.Options{}, func(world mpi.Comm) error {
				cfg := &config.Config{}
				cfg.Prefix, cfg.JobID, cfg.NodeName = t.TempDir(), "job", fmt.Sprint("n", world.Rank()/2)
				nodes := []Node{{"n1", 2}, {"n0", 2}}
				f, err := Gather(world, OfThisProcess(), true, nodes, cfg, "v")
				if err != nil || (f != nil) != (world.Rank() == 0) {
					return fmt.Errorf("%v, %v", f, err)
				}
				if f == nil {
					return nil
				}
				wd, _ := os.Getwd()
				if len(f.Programs) != 1 || f.Programs[0].Ranks != size || f.Programs[0].Dir != wd || !slices.Equal(f.Programs[0].Argv, os.Args) ||
					f.Job != "job" || len(f.Nodes) != 2 || f.Nodes[0].Name != "n0" {
					return fmt.Errorf("%+v", f)
				}
				return nil
			})
			must(t, err)
		})
	}
}

// Ranks that run several programs.
func TestGather_Programs(t *testing.T) {
	names := []string{"a", "a", "b", "a", "a", "a"}
	_, err := local.Run(len(names), local.Options{}, func(world mpi.Comm) error {
		begins := world.Rank() == 0 || names[world.Rank()] != names[world.Rank()-1]
		list, partial, err := gatherPrograms(world, Start{[]string{names[world.Rank()], "x"}, "/d"}, false, func() ([]string, error) {
			if !begins {
				t.Errorf("rank %d, which runs the program of the rank below it, looks up its environment", world.Rank())
			}
			return []string{fmt.Sprint("RANK=", world.Rank())}, nil
		})
		if err != nil || world.Rank() != 0 {
			return err
		}
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprint(p.Argv[0], p.First, p.Ranks, p.Environ))
		}
		if want := []string{"a0 2 [RANK=0]", "b2 1 [RANK=2]", "a3 3 [RANK=3]"}; partial || !slices.Equal(got, want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	must(t, err)
	most := mostPrograms + 2
	_, err = local.Run(most, local.Options{}, func(world mpi.Comm) error {
		list, partial, err := gatherPrograms(world, Start{[]string{fmt.Sprint(world.Rank())}, ""}, false, func() ([]string, error) { return nil, nil })
		if err == nil && (!partial || len(list) != 1) {
			err = fmt.Errorf("%d programs, %v", len(list), partial)
		}
		return err
	})
	must(t, err)
}
