package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
)

func TestMain(m *testing.M) {
	Become()
	os.Exit(m.Run())
}

// A few random jobs; make test and make soak run more.
func TestSoak(t *testing.T) {
	var out bytes.Buffer
	ok, err := Run(Options{First: 1, Jobs: 4, Workers: 2, Out: &out, Refuse: true})
	if err != nil || !ok {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), " jobs\n") {
		t.Errorf("no table:\n%s", out.String())
	}
}

// Jobs in which something went wrong once.
func TestSoak_Again(t *testing.T) {
	for seed, what := range map[uint64]string{
		20151: "an output that could not be flushed took the place of the newest checkpoint",
		70165: "the program makes a checkpoint current that may be in the cache, and is killed",
		3154:  "a version that has taken the name of another is replaced in the same run",
		1568:  "an older dataset is scavenged after a newer one that has files of the same names",

		910305:    "a changed bit that nothing finds, in a cache in memory without redundancy, is offered",
		881067:    "... and scavenged",
		911282:    "... in a file of a rank that is alone in its set, and flushed; the newest version of its name is another",
		880524:    "a checkpoint is deleted for one that is dropped, and the drop does not end",
		911071:    "a run of another size makes a checkpoint current that is only in the cache",
		881112:    "a kill while a checkpoint is made current offers a third one",
		1204255:   "a name is made current whose newest version was not completed: the library finds an older one",
		1205200:   "SCR_PREFIX_SIZE counts a checkpoint that was scavenged after a kill, and then damaged",
		1203442:   "a run completes the flush of a checkpoint that replaces another, and cannot read it where it is",
		1203038:   "a file is damaged in the prefix directory at a path of a version that comes there later",
		1202360:   "a checkpoint leaves the cache for a newer one that was rejected, and is damaged in the prefix directory",
		1202057:   "a checkpoint that the rejected one has replaced in the prefix directory leaves the cache",
		1201452:   "a run of another size deletes a checkpoint that is only in the cache, and a later one is offered it",
		1200763:   "a run completes the flush of a checkpoint that replaces another, and then rejects it",
		1208905:   "a user deletes one file of a dataset in the prefix directory, and another dataset has its name",
		1209054:   "a run is killed while the program rejects a checkpoint, and the next records that",
		1209182:   "a checkpoint is flushed in Init, the one before it leaves for its room, and then it is rejected",
		1212854:   "a checkpoint leaves the prefix directory for another, which is dropped, and the run recovers",
		1241724:   "a checkpoint cannot be rebuilt for lack of room, nor be fetched in its place, and is damaged in the prefix directory",
		1224277:   "the newest version of a name is damaged, and an older one is in the index",
		1213322:   "a list of files that are being copied is removed, and the flush is completed all the same",
		1210033:   "a run is killed while the program writes over the files of an output in the prefix directory",
		190308945: "a run makes a dataset current that is no checkpoint, continues in the same launch, and fetches what it had flushed",
		6130830:   "the newest checkpoint that is offered leaves the cache, and one that the program has refused stays there",
		3301479:   "a damaged checkpoint, which SCR_PREFIX_SIZE counts, is made current, and the run recovers",
		3301552:   "a run that bypasses the cache completes the flush of a checkpoint, and compresses it",
		3303588:   "a flushed checkpoint is newer than one that bypassed the cache",
		3322413:   "a run completes the flush of a version that replaces another, and writes over it itself",
		3335329:   "a retired checkpoint, whose list is damaged, is deleted for newer ones",
		1200066:   "an output is replaced by one that was complete when the job was killed, and that is replaced in the next run",
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			again(t, Options{First: seed}, what)
		})
	}
}

// ... and in which the program may refuse several checkpoints.
func TestSoak_AgainRefused(t *testing.T) {
	for seed, what := range map[uint64]string{
		3502094: "a run of another size flushes a checkpoint that the program has refused, and is offered it",
		3502115: "a run makes a checkpoint current that it has refused, which then leaves the cache",
		3502206: "... and that is only in the cache",
		3530246: "a run is killed while the program refuses a checkpoint that was fetched, which may stay the current one",
		3702751: "two are refused on all ranks, the first dataset that the run begins fails, and the cache still has both",
		3703106: "the program deletes a name that a retired checkpoint had, which another computation has written",
		3802346: "the newest is flushed over the files of the one before, and then deleted",
		3802870: "a run that refuses two and starts from the beginning has flushed one of them before, for which an older one leaves",
		3803162: "a computation of which there is only a refused checkpoint has come farther than one that is good",
		3816034: "a run is killed while it makes a refused checkpoint the current one, which later runs are offered",
		3901851: "a run flushes a checkpoint in Init, for which an older one leaves the prefix directory, and then refuses it",
		3902116: "a run without storage deletes the directory of a dataset, whose entry stays in the index, and it is scavenged",
		3903002: "two are refused on all ranks, the newer one leaves the cache, and a run of another size has written a newer one",
		3905263: "... and the cache has room for one",
		3923285: "a checkpoint that bypassed the cache, complete when its job was killed, is retired for one of its name",
		3943360: "a run of another size refuses a checkpoint, which it reads where it is, and the cache has it for the runs before",
		3601854: "a scavenge after a run of another size, which does not know what the cache has beside",
		3502905: "of two that are refused on all ranks the newer one was only in the cache, and is lost with it",
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			again(t, Options{First: seed, Refuse: true}, what)
		})
	}
}

// again runs one job.
func again(t *testing.T, opt Options, what string) {
	t.Helper()
	var out bytes.Buffer
	opt.Jobs, opt.Out = 1, &out
	if ok, err := Run(opt); err != nil || !ok {
		t.Errorf("%s: %v\n%s", what, err, out.String())
	}
}

// Each rule can be broken, and the judge sees it.
func TestJudge_SeesWhatIsWrong(t *testing.T) {
	single := settings{scheme: "SINGLE", setSize: 2, cacheSize: 2, flush: 1, piece: 1 << 10}
	three := settings{scheme: "XOR", losses: 1, setSize: 4, cacheSize: 3, piece: 1 << 10}
	write := []op{{What: "checkpoint"}, {What: "checkpoint"}}
	for name, test := range map[string]struct {
		settings
		nodes []string // of the second run
		harm  func(t *testing.T, st *story)
		says  string
	}{
		"an older checkpoint": {single, nil, func(t *testing.T, st *story) {
			must(t, prefix.UpdateIndex(st.site.prefix(), func(x *prefix.Index) error { x.Remove("version.2"); return nil }))
			must(t, os.RemoveAll(filepath.Join(st.site.root, "node")))
		}, "it is not offered version.2"},
		"no checkpoint": {single, nil, func(t *testing.T, st *story) {
			must(t, os.RemoveAll(filepath.Join(st.site.root, "node")))
			must(t, os.RemoveAll(filepath.Join(st.site.prefix(), ".scr")))
		}, "it is not offered version.2"},
		"complete, but a file is gone": {single, nil, func(t *testing.T, st *story) {
			must(t, os.Remove(st.largest(t)))
		}, "as complete, which it is not"},
		"other bytes": {settings{scheme: "SINGLE", setSize: 2, flush: 1, piece: 1 << 10}, nil, func(t *testing.T, st *story) {
			path := st.largest(t)
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}, "is none of its 1 versions"},
		"an error": {single, nil, func(t *testing.T, st *story) {
			must(t, os.WriteFile(filepath.Join(st.site.prefix(), ".scr/index.scr"), nil, 0o600))
		}, "the run fails: "},
		"between the newest and the choice": {three, nil, func(t *testing.T, st *story) {
			must(t, st.judgeRun(st.jobOf(op{What: "checkpoint"}), 2))
			st.model.choice = st.model.facts[0] // as if a kill had ended a call of Current
			for _, node := range st.nodes {
				must(t, os.RemoveAll(filepath.Join(st.site.node(node), "cache/user/scr.job/scr.dataset.3")))
			}
		}, "it is offered neither version.3 (version 3), nor a newer one, nor version.1"},
		"deleted, and offered": {single, nil, func(t *testing.T, st *story) {
			for _, f := range st.model.facts {
				f.gone = "deleted"
			}
		}, "is offered, which was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			st := begin(t, test.settings)
			must(t, st.judgeRun(st.jobOf(write...), 1))
			test.harm(t, st)
			err := st.judgeRun(st.jobOf(), 2)
			if f := (*failure)(nil); !errors.As(err, &f) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q\n%s", err, test.says, strings.Join(st.lines, "\n"))
			}
		})
	}
}

// What a run has refused is offered again only if that were two on all ranks.
func TestJudge_Refusals(t *testing.T) {
	forget := func(t *testing.T, st *story) { must(t, prefix.Forgive(st.site.prefix())) }
	lose := func(t *testing.T, st *story) { must(t, os.RemoveAll(filepath.Join(st.site.root, "node"))) }
	for name, test := range map[string]struct {
		refuse []bool
		flush  int
		harm   func(t *testing.T, st *story)
		says   string // "": nothing is wrong
		must   string // what the last run must be offered
	}{
		"one on one rank":         {[]bool{false}, 0, nil, "", "version.2"},
		"two on one rank":         {[]bool{false, false}, 0, nil, "", "version.1"},
		"... forgotten":           {[]bool{false, false}, 0, forget, "version.3 (version 3) is offered, which was rejected", "version.1"},
		"one on all":              {[]bool{true}, 0, nil, "", "version.2"},
		"two on all":              {[]bool{true, true}, 0, nil, "", "version.3"},
		"... flushed":             {[]bool{true, true}, 1, lose, "", "version.3"},
		"... lost":                {[]bool{true, true}, 0, lose, "it is not offered version.3", "version.3"},
		"on one, then two on all": {[]bool{false, true, true}, 0, nil, "", "version.2"},
		"... one is forgotten":    {[]bool{false, true, true}, 0, forget, "version.3 (version 3) is offered, which was rejected", "version.2"},
		"on all, one, and all":    {[]bool{true, false, true}, 0, nil, "", "version.3"},
	} {
		t.Run(name, func(t *testing.T) {
			st := begin(t, settings{scheme: "XOR", losses: 1, setSize: 4, cacheSize: 3, flush: test.flush, piece: 1 << 10})
			o := op{What: "checkpoint"}
			must(t, st.judgeRun(st.jobOf(o, o, o), 1))
			refuses := st.jobOf()
			refuses.Refuse, refuses.Stops = test.refuse, true
			must(t, st.judgeRun(refuses, 2))
			if test.harm != nil {
				test.harm(t, st)
			}
			err := st.judgeRun(st.jobOf(), 3)
			if f := (*failure)(nil); test.says == "" && err != nil || test.says != "" && (!errors.As(err, &f) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%v, want %q\n%s", err, test.says, strings.Join(st.lines, "\n"))
			}
			if last := st.lines[len(st.lines)-3:]; test.must != "" && !strings.Contains(strings.Join(last, "\n"), "It must be offered "+test.must) {
				t.Errorf("must be offered %s\n%s", test.must, strings.Join(st.lines, "\n"))
			}
		})
	}
}

// A changed bit of a file without a checksum is what a run, or the prefix directory, may have; any
// other is wrong, and so is one that comes after a flush.
func TestJudge_ChangedBits(t *testing.T) {
	single := settings{scheme: "SINGLE", setSize: 2, cacheSize: 2, piece: 1 << 10}
	flushed := single
	flushed.flush = 1
	xor := settings{scheme: "XOR", losses: 1, setSize: 4, cacheSize: 2, piece: 1 << 10}
	for name, test := range map[string]struct {
		settings
		memory bool
		told   int // so many of two changes are told to the model
		loose  int // ... and may be there
		says   string
	}{
		"two":             {single, true, 2, 2, ""},
		"another":         {single, true, 1, 1, "is none of its 1 versions"},
		"after a flush":   {flushed, true, 2, 0, ""}, // found
		"with redundancy": {xor, true, 2, 0, ""},     // found and repaired
		"not in memory":   {single, false, 2, 0, "is none of its 1 versions"},
	} {
		t.Run(name, func(t *testing.T) {
			st := begin(t, test.settings)
			if !st.site.memory {
				t.Skip("the site is not in memory")
			}
			st.site.memory = test.memory
			must(t, st.judgeRun(st.jobOf(op{What: "checkpoint"}), 1))
			f := st.model.facts[0]
			rank := slices.IndexFunc([]int{0, 1, 2, 3}, func(rank int) bool {
				list := contents(st.seed, f.Version, rank)
				return len(list) > 0 && len(list[0].data) > 20
			})
			c := contents(st.seed, f.Version, rank)[0]
			path := filepath.Join(st.site.node(st.nodes[rank]), "cache/user/scr.job/scr.dataset.1", c.name)
			for i := range 2 {
				info, err := os.Stat(path)
				must(t, err)
				data, err := os.ReadFile(path)
				must(t, err)
				data[len(data)-1-i] ^= 4
				must(t, os.WriteFile(path, data, 0o600))
				must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
				f.cache.damage(st.nodes[rank])
				if i < test.told && st.site.memory {
					must(t, st.loosen(st.nodes[rank], path))
				}
			}
			if len(f.Flips) != test.loose {
				t.Errorf("%d may be there, want %d", len(f.Flips), test.loose)
			}
			err := st.judgeRun(st.jobOf(), 2)
			if wrong := (*failure)(nil); test.says == "" && err != nil || test.says != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%v, want %q\n%s", err, test.says, strings.Join(st.lines, "\n"))
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begin begins a story of four ranks.
func begin(t *testing.T, s settings) *story {
	t.Helper()
	site, err := newSite()
	must(t, err)
	t.Cleanup(site.close)
	return &story{seed: 1, site: site, model: newModel(), fresh: true, next: 1,
		launch: launch{[]string{"a", "b", "c", "d"}, s}, transcript: transcript{counts: counts{Restarts: map[string]int{}}}}
}

func (st *story) jobOf(ops ...op) job {
	return job{Root: st.site.root, Nodes: st.nodes, Env: st.set.environment(), Ops: ops,
		Versions: versions{Seed: st.seed, Fresh: true, Known: st.model.known(), Next: st.next}}
}

// largest is the path of the largest file of the newest version in the prefix directory.
func (st *story) largest(t *testing.T) string {
	t.Helper()
	var list []file
	v := st.model.facts[len(st.model.facts)-1].Version
	for rank := range v.Ranks {
		list = append(list, contents(st.seed, v, rank)...)
	}
	f := slices.MaxFunc(list, func(a, b file) int { return len(a.data) - len(b.data) })
	return filepath.Join(st.site.prefix(), f.name)
}

// The same seed draws the same story, and others do not.
func TestStory_Drawn(t *testing.T) {
	v := Version{ID: 3, Name: "x", Flags: session.Checkpoint, Ranks: 4}
	if a, b := contents(1, v, 0), contents(1, v, 0); len(a) != len(b) || len(a) > 0 && !bytes.Equal(a[0].data, b[0].data) {
		t.Error("the contents of a version differ from those of the same version")
	}
	draw := func(seed uint64) string {
		st := &story{seed: seed}
		return drawSettings(st.random(0)).String()
	}
	one, again, two, three := draw(1), draw(1), draw(2), draw(3)
	if one != again || one == two && two == three {
		t.Errorf("%s, %s, %s, %s", one, again, two, three)
	}
}

func TestLayout(t *testing.T) {
	xor := settings{losses: 1, setSize: 4}
	rs := settings{losses: 2, setSize: 4}
	for _, test := range []struct {
		nodes string
		set   settings
		left  string
		bears bool
	}{
		{"a b c d", xor, "a b c", true},
		{"a b c d", xor, "a b", false},
		{"a b c d", rs, "a b", true},
		{"a b c d", rs, "a", false},
		{"a a b b", xor, "a", true},                       // two sets of two
		{"a a a b", xor, "a", true},                       // b is in a set with one of a
		{"a a a b", xor, "b", false},                      // two of a are alone
		{"a a", xor, "", false},                           // SINGLE
		{"a b c d", settings{setSize: 4}, "a b c", false}, // SINGLE
		{"a b", rs, "a", true},                            // a set of two tolerates one
	} {
		l := newLayout(strings.Fields(test.nodes), test.set)
		if got := l.survives(strings.Fields(test.left), false); got != test.bears {
			t.Errorf("ranks on %s, %d losses, left are %s: %v", test.nodes, test.set.losses, test.left, got)
		}
	}
	l := newLayout([]string{"a", "b", "c", "d"}, xor)
	l.unsettle([]string{"a", "b", "d", "c"}) // on their way
	if l.survives([]string{"a", "b", "c"}, false) {
		t.Error("files of two ranks may be on d alone")
	}
	l.settle([]string{"a", "b", "d", "c"})
	if l.damage("b"); !l.survives([]string{"a", "b", "c", "d"}, false) || l.survives([]string{"a", "b", "c"}, false) {
		t.Error("one is damaged, and one more lost is too many")
	}
}
