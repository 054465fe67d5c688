package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/goscr/goscr/test/tracer"
)

// A scenario is a state of a site, what is killed there, and what can be lost after that.
//
// The state is made by a job that writes two checkpoints and ends without Finalize. What is
// killed is another run of it, or commands.
type scenario struct {
	name string
	env  []string // of all runs
	conf []string // lines of the user's configuration file
	same bool     // all checkpoints have the same file names
	mpi  bool     // ranks are processes, and the program is steps.c

	first []string // nodes of the ranks of the run that makes the state
	lost  []string // nodes whose storage is lost then; "*" is all
	nodes []string // nodes of the ranks from then on

	kill     []string // NAME=value for the run that is killed only
	ops      []string // see job.Ops
	commands []string // killed instead of a run; lines of a shell script
	victim   tracer.Victim

	bears int    // losses of nodes that the scheme tolerates
	keep  keeper // what the prefix directory has
	least int    // the oldest checkpoint that may be restarted from, if that is not the last complete one
	every int    // only every so many calls; 0: all
}

// keeper is what is in the prefix directory when a checkpoint is complete.
type keeper int

const (
	nothing keeper = iota // until somebody scavenges
	later                 // what the index says
	atOnce                // every complete checkpoint
)

var (
	abcd    = []string{"a", "b", "c", "d"}
	rotated = []string{"d", "a", "b", "c"}
	spare   = []string{"a", "e", "c", "d"}
	mixed   = []string{"c", "a", "d", "e"}
)

// scenarios are all there are.
func scenarios(withMPI bool) (all []*scenario) {
	add := func(s scenario) {
		for _, other := range all {
			if other.name == s.name {
				panic("two scenarios " + s.name)
			}
		}
		if s.first == nil {
			s.first = abcd
		}
		if s.nodes == nil {
			s.nodes = s.first
		}
		all = append(all, &s)
	}
	schemes := []struct {
		name  string
		bears int
	}{{"XOR", 1}, {"PARTNER", 1}, {"RS", 2}, {"SINGLE", 0}}
	flushes := []struct {
		name string
		env  []string
		keep keeper
	}{
		{"none", []string{"SCR_FLUSH=0"}, nothing},
		{"sync", []string{"SCR_FLUSH=1"}, atOnce},
		{"threads", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"}, later},
		{"daemon", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON"}, later},
	}
	starts := []struct {
		name        string
		lost, nodes []string
	}{{"whole", nil, abcd}, {"lost", []string{"b"}, spare}, {"moved", nil, rotated}, {"moved-lost", []string{"b"}, mixed}, {"gone", []string{"*"}, abcd}}
	for _, scheme := range schemes {
		for _, flush := range flushes {
			for _, start := range starts {
				losesAll := len(start.lost) > 0 && scheme.bears == 0 || start.name == "gone"
				if losesAll && flush.keep != atOnce {
					continue // there would be nothing to restart from, or it would depend on the time
				}
				if flush.keep == later && scheme.name != "XOR" && start.name != "whole" {
					continue // how a dataset is copied depends on the scheme no more than with XOR
				}
				s := scenario{name: strings.ToLower(scheme.name) + "-" + flush.name + "-" + start.name, bears: scheme.bears, keep: flush.keep,
					env: append([]string{"SCR_COPY_TYPE=" + scheme.name}, flush.env...), lost: start.lost, nodes: start.nodes}
				add(s)
				if flush.name == "daemon" && scheme.name == "XOR" { // the program or scr_transfer alone
					s.name, s.victim = s.name+"-one", tracer.One
					add(s)
				}
			}
		}
	}
	for _, flush := range flushes[1:] {
		with := func(env ...string) []string { return append(slices.Clone(flush.env), env...) }
		add(scenario{name: "zstd-" + flush.name, env: with("SCR_FLUSH_COMPRESS=zstd"), bears: 1, keep: flush.keep})
		add(scenario{name: "keeps-one-" + flush.name, env: with("SCR_PREFIX_SIZE=1"), bears: 1, keep: flush.keep})
		add(scenario{name: "same-" + flush.name, env: with(), same: true, bears: 1, keep: flush.keep})
		add(scenario{name: "same-keeps-one-" + flush.name, env: with("SCR_PREFIX_SIZE=1"), same: true, bears: 1, keep: flush.keep})
		add(scenario{name: "same-zstd-" + flush.name, env: with("SCR_FLUSH_COMPRESS=zstd"), same: true, bears: 1, keep: flush.keep})
	}
	sync := flushes[1].env
	with := func(env ...string) []string { return append(slices.Clone(sync), env...) }
	add(scenario{name: "zstd-gone", env: with("SCR_FLUSH_COMPRESS=zstd"), lost: []string{"*"}, bears: 1, keep: atOnce})
	add(scenario{name: "same-gone", env: sync, same: true, lost: []string{"*"}, bears: 1, keep: atOnce})
	add(scenario{name: "poststage", env: append(slices.Clone(flushes[3].env), "SCR_FLUSH_POSTSTAGE=1"), bears: 1, keep: later})
	add(scenario{name: "poststage-one", env: append(slices.Clone(flushes[3].env), "SCR_FLUSH_POSTSTAGE=1"), bears: 1, keep: later, victim: tracer.One})
	add(scenario{name: "bypass", env: with("SCR_CACHE_BYPASS=1"), keep: atOnce})
	add(scenario{name: "bypass-keeps-two", env: with("SCR_CACHE_BYPASS=1", "SCR_PREFIX_SIZE=2"), keep: atOnce})
	add(scenario{name: "fetch-bypass", env: with("SCR_FETCH_BYPASS=1"), lost: []string{"*"}, bears: 1, keep: atOnce})
	add(scenario{name: "fetch-on-init", env: with("SCR_FETCH_ON_INIT=1"), lost: []string{"*"}, bears: 1, keep: atOnce})
	add(scenario{name: "cache-of-one", env: with("SCR_CACHE_SIZE=1"), bears: 1, keep: atOnce})
	add(scenario{name: "cache-of-four", env: with("SCR_CACHE_SIZE=4"), bears: 1, keep: atOnce})
	add(scenario{name: "cache-purged", env: sync, kill: []string{"SCR_CACHE_PURGE=1"}, bears: 1, keep: atOnce})
	add(scenario{name: "log", env: with("SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0"), bears: 1, keep: atOnce})
	eight := []string{"a", "a", "b", "b", "c", "c", "d", "d"}
	add(scenario{name: "two-on-a-node-lost", env: sync, first: eight, lost: []string{"b"}, nodes: []string{"a", "a", "e", "e", "c", "c", "d", "d"}, bears: 1, keep: atOnce})
	add(scenario{name: "two-on-a-node-moved", env: []string{"SCR_FLUSH=0"}, first: eight, nodes: []string{"d", "b", "a", "c", "b", "d", "c", "a"}, bears: 1})
	shared := []string{"STORE=$SHARED VIEW=GLOBAL", "CKPT=0 STORE=$SHARED"}
	add(scenario{name: "shared-store", env: []string{"SCR_FLUSH=0", "SCR_COPY_TYPE=FILE"}, conf: shared})
	add(scenario{name: "shared-store-moved", env: []string{"SCR_FLUSH=0", "SCR_COPY_TYPE=FILE"}, conf: shared, nodes: rotated})
	add(scenario{name: "delete", env: sync, ops: []string{"delete ckpt.1"}, bears: 1, keep: atOnce})
	add(scenario{name: "delete-newest", env: sync, ops: []string{"delete ckpt.2"}, bears: 1, keep: atOnce, least: 1})
	add(scenario{name: "same-delete", env: sync, same: true, ops: []string{"delete ckpt.1"}, bears: 1, keep: atOnce})
	add(scenario{name: "drop", env: sync, ops: []string{"drop ckpt.1"}, bears: 1, keep: atOnce})
	add(scenario{name: "current", env: sync, kill: []string{"SCR_CURRENT=ckpt.1"}, bears: 1, keep: atOnce, least: 1})

	for _, scheme := range schemes[:3] {
		for _, victim := range []tracer.Victim{tracer.All, tracer.One} {
			name := "scavenge-" + strings.ToLower(scheme.name)
			if victim == tracer.One {
				name += "-one"
			}
			add(scenario{name: name, env: []string{"SCR_FLUSH=0", "SCR_COPY_TYPE=" + scheme.name}, lost: []string{"b"}, nodes: spare, victim: victim,
				commands: []string{"@a scr_copy --id 2 b", "@c scr_copy --id 2 b", "@d scr_copy --id 2 b", "scr_index --build 2"}})
		}
	}
	add(scenario{name: "scavenge-same", env: []string{"SCR_FLUSH=0"}, same: true, lost: []string{"b"}, nodes: spare,
		commands: []string{"@a scr_copy --id 2 b", "@c scr_copy --id 2 b", "@d scr_copy --id 2 b", "scr_index --build 2"}})
	for _, c := range [][]string{
		{"drop", "scr_index --drop ckpt.2 || :", "scr_index --add ckpt.2 && scr_index --current ckpt.2"},
		{"drop-after", "scr_index --drop-after ckpt.1", "scr_index --add ckpt.2 && scr_index --current ckpt.2"},
		{"current", "scr_index --current ckpt.1", "scr_index --current ckpt.2"},
		{"repair", "printf broken >$SCR_PREFIX/.scr/index.scr", "scr_index --repair"},
		{"halt", "scr_halt_cntl --dir $SCR_PREFIX -r maintenance", "scr_halt_cntl --dir $SCR_PREFIX -c 7", "rm $SCR_PREFIX/.scr/halt.scr"},
	} {
		add(scenario{name: "index-" + c[0], env: sync, bears: 1, keep: atOnce, commands: c[1:], least: 1})
	}
	add(scenario{name: "index-expand", env: with("SCR_FLUSH_COMPRESS=zstd"), keep: atOnce, commands: []string{"scr_index --expand ckpt.2"}})

	if withMPI {
		for _, victim := range []tracer.Victim{tracer.One, tracer.All} {
			for _, s := range slices.Clone(all) {
				switch s.name {
				case "xor-none-whole", "xor-none-moved-lost", "xor-sync-whole", "xor-sync-gone", "xor-threads-whole", "xor-daemon-whole",
					"partner-none-lost", "rs-none-lost", "zstd-sync", "bypass", "keeps-one-sync":
					m := *s
					m.name, m.mpi, m.victim, m.every = "mpi-"+s.name, true, victim, 50
					if victim == tracer.One {
						m.name += "-one"
					}
					add(m)
				}
			}
		}
	}
	return all
}

// compressed reports whether files in the prefix directory are not the program's bytes.
func (sc *scenario) compressed() bool { return slices.Contains(sc.env, "SCR_FLUSH_COMPRESS=zstd") }

// begin makes the state of a scenario at an empty site.
func (s *site) begin(sc *scenario) error {
	if err := s.clear(); err != nil {
		return err
	}
	if len(sc.conf) > 0 {
		if err := os.WriteFile(s.at("prefix", ".scrconf"), []byte(strings.Join(sc.conf, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	result, err := s.play(sc, job{Nodes: sc.first, Count: 2})
	if err != nil {
		return err
	}
	if e, err := s.events(); err != nil || e.complete != 2 || result.Status != 0 {
		return fmt.Errorf("the first run of %s: status %d, %+v, %v\n%s", sc.name, result.Status, e, err, s.said.String())
	}
	if slices.Contains(sc.lost, "*") {
		return s.loseAll()
	}
	return s.lose(sc.lost...)
}

// play is a run of a scenario's program that nobody kills.
func (s *site) play(sc *scenario, j job) (tracer.Result, error) { return s.playUntil(sc, j, 0) }

// playUntil is a run that is killed in place of a call.
func (s *site) playUntil(sc *scenario, j job, at int) (tracer.Result, error) {
	if err := s.startRun(); err != nil {
		return tracer.Result{}, err
	}
	j.Env, j.Same = append(slices.Clone(sc.env), j.Env...), sc.same
	if sc.mpi {
		return s.playMPI(sc, j, at)
	}
	argv, err := s.job(j)
	if err != nil {
		return tracer.Result{}, err
	}
	return s.run(argv, nil, at, sc.victim)
}

// playMPI is playUntil with mpirun.
func (s *site) playMPI(sc *scenario, j job, at int) (tracer.Result, error) {
	temporary := s.at("tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return tracer.Result{}, err
	}
	defer os.RemoveAll(temporary)
	j.Root = s.root
	text, err := json.Marshal(j)
	if err != nil {
		return tracer.Result{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return tracer.Result{}, err
	}
	n := fmt.Sprint(len(j.Nodes))
	mpirun := "mpirun." + s.mpi
	if _, err := exec.LookPath(mpirun); err != nil {
		mpirun = "mpirun" // not Debian
	}
	argv := []string{mpirun, "-n", n}
	if s.mpi == "openmpi" {
		argv = []string{mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
			"--mca", "btl", "self,vader", "--mca", "mpi_yield_when_idle", "1", "--mca", "orte_tmpdir_base", temporary,
			"--mca", "btl_vader_backing_directory", temporary, "-n", n}
	}
	argv = append(argv, self, "rank", string(text), s.steps, "-n", fmt.Sprint(j.Count), "-l", s.at("log"))
	return s.run(argv, []string{"UCX_POSIX_DIR=" + temporary, "TMPDIR=" + temporary, "OMPI_MCA_rmaps_base_oversubscribe=1"}, at, sc.victim)
}

// strike is what is killed in a scenario, with a kill in place of a call, or none at all
// if at is 0.
func (s *site) strike(sc *scenario, at int) (tracer.Result, error) {
	if len(sc.commands) == 0 {
		return s.playUntil(sc, job{Nodes: sc.nodes, Env: sc.kill, Count: 2, Ops: sc.ops, End: true}, at)
	}
	return s.command(sc, at)
}

// command runs the commands of a scenario. Those of a node begin with @NODE.
func (s *site) command(sc *scenario, at int) (tracer.Result, error) {
	script := []string{"status=0"}
	environ := func(node string) (list []string) {
		for name, value := range variables(s.root, node, sc.env) {
			list = append(list, name+"="+value)
		}
		slices.Sort(list)
		return list
	}
	for _, line := range sc.commands {
		if node, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(node, "@") {
			line = "env '" + strings.Join(environ(node[1:]), "' '") + "' " + rest
		}
		script = append(script, line+" || status=1")
	}
	script = append(script, "exit $status")
	return s.run([]string{"sh", "-c", strings.Join(script, "\n")}, environ("login"), at, sc.victim)
}
