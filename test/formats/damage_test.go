package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/damage"
	"github.com/goscr/goscr/test/sample"
)

// patience is how long a job or a command may take that takes a tenth of a second; a
// machine would have to be slower by a thousand.
const patience = 3 * time.Minute

// most is how much memory a job or a command may ask for, of files of a few kilobytes.
const most = 1 << 30

// Whatever is in files of the cache and of the prefix directory, with checksums that fit, a
// job and the commands return: nothing panics, hangs, takes all memory, changes a file
// that is somewhere else, or hands the program other bytes than it wrote. The input is
// the seed of what is changed.
func FuzzDamagedFiles(f *testing.F) {
	seeds := uint64(24)
	switch sample.Now() {
	case sample.Quick:
		seeds = 4
	case sample.Drawn:
		seeds = 12
	}
	for seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := newDamaged(t, r)
		d.change()
		// Each finds what the others have made of it.
		for range 1 + r.IntN(3) {
			if r.IntN(2) == 0 {
				d.runJob()
			}
			for range 1 + r.IntN(4) {
				d.runCommand()
			}
		}
		d.runJob()
		d.runJob()
		d.checkOutside()
		if t.Failed() {
			t.Logf("seed %d, %s:\n%s", seed, d.kind, strings.Join(d.story, "\n"))
		}
	})
}

// damaged is a site with files that have been changed.
type damaged struct {
	*site
	r       *rand.Rand
	kind    string
	outside tree
	story   []string
}

func newDamaged(t *testing.T, r *rand.Rand) *damaged {
	var kinds []string // of this version more often
	for _, version := range versions(t) {
		dirs, err := os.ReadDir(filepath.Join(corpus, version))
		must(t, err)
		for _, dir := range dirs {
			if dir.IsDir() {
				kinds = append(kinds, version+"/"+dir.Name())
			}
		}
	}
	d := &damaged{r: r, kind: kinds[r.IntN(len(kinds))]}
	settings := []string{"SCR_FLUSH=0", "SCR_FLUSH=1", "SCR_FLUSH=1 SCR_FLUSH_ASYNC=1", "SCR_CACHE_SIZE=1", "SCR_CACHE_BYPASS=1",
		"SCR_FLUSH_ON_RESTART=1", "SCR_GLOBAL_RESTART=1", "SCR_PREFIX_SIZE=1 SCR_FLUSH=1", "SCR_CACHE_PURGE=1", "SCR_FETCH_BYPASS=1", "SCR_COPY_TYPE=RS",
		"SCR_COPY_TYPE=PARTNER", "SCR_CURRENT=ckpt.2", "SCR_FLUSH_COMPRESS=zstd SCR_FLUSH=1", "SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0"}
	version, kind, _ := strings.Cut(d.kind, "/")
	d.site = moved(t, version, kind, strings.Fields(settings[r.IntN(len(settings))])...)
	must(t, os.MkdirAll(filepath.Join(d.root, "outside"), 0o700))
	must(t, os.WriteFile(filepath.Join(d.root, "outside/file"), []byte("precious"), 0o600))
	must(t, os.WriteFile(filepath.Join(d.root, "file"), []byte("precious"), 0o600))
	d.outside = d.readOutside()
	return d
}

// readOutside returns what is neither in the prefix directory, nor on a node, nor in the store that
// nodes share.
func (d *damaged) readOutside() tree {
	files := tree{}
	for name, data := range load(d.t, d.root) {
		top, _, _ := strings.Cut(name, "/")
		if top != "prefix" && top != "burst" && !strings.HasPrefix(top, "node") {
			files[name] = data
		}
	}
	return files
}

func (d *damaged) checkOutside() {
	d.t.Helper()
	if now := d.readOutside(); !maps.EqualFunc(now, d.outside, bytes.Equal) {
		d.t.Errorf("files outside have changed: %v, were %v", now.names(), d.outside.names())
	}
	if exists(d.t, absolute) {
		d.t.Errorf("%s has been made", absolute)
		must(d.t, os.RemoveAll(absolute))
	}
}

// absolute is a path that nobody else has.
const absolute = "/tmp/goscr-damaged-outside"

// change changes a few files, or loses a node.
func (d *damaged) change() {
	files := load(d.t, d.root).names()
	files = slices.DeleteFunc(files, func(name string) bool { return d.outside[name] != nil || path.Base(name) == emptyDir })
	// What goscr has written is more interesting than what the program has.
	ofProgram := func(name string) bool { return formatOf(name, nil) == dataFormat && !strings.Contains(name, "scr") }
	own := slices.DeleteFunc(slices.Clone(files), ofProgram)
	by := damage.Damager{Random: d.r, Paths: []string{filepath.Join(d.root, "outside/file"), absolute, filepath.Join(d.root, "file")}}
	for range 1 + d.r.IntN(3) {
		from := own
		if d.r.IntN(10) == 0 || len(own) == 0 {
			from = files
		}
		name := from[d.r.IntN(len(from))]
		at := filepath.Join(d.root, name)
		info, err := os.Lstat(at)
		must(d.t, err)
		if !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(at)
		must(d.t, err)
		must(d.t, os.WriteFile(at, by.Change(name, data), 0o600))
		if !ofProgram(name) { // nothing but the time shows it where there is no checksum, as with bypass
			must(d.t, os.Chtimes(at, info.ModTime(), info.ModTime()))
		}
		must(d.t, os.Chmod(at, info.Mode()))
		d.story = append(d.story, "changed "+name)
	}
	if d.r.IntN(3) == 0 {
		lost := d.r.IntN(ranks)
		d.lose(lost)
		d.story = append(d.story, fmt.Sprint("lost node ", lost))
	}
}

// runJob runs a job that restarts if it can, checks what it is given, and writes a
// checkpoint. Its calls may fail.
func (d *damaged) runJob() {
	d.t.Helper()
	lines := &lockedBuffer{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wrong atomic.Pointer[string]
	moves, step := d.r.IntN(2), 40+len(d.story)
	_, err := local.Run(ranks, local.Options{Timeout: patience}, func(world mpi.Comm) error {
		env := d.parameters((world.Rank() + moves) % ranks)
		c, err := session.Init(world, session.Options{Log: lines, Environ: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}})
		if err != nil {
			return nil // on all ranks
		}
		if bad := d.restart(c, world.Rank()); bad != nil {
			text := bad.Error()
			wrong.Store(&text)
		}
		_ = checkpoint(c, world.Rank(), step) // an error is as good as none
		_ = c.Finalize()
		return nil
	})
	runtime.ReadMemStats(&after)
	d.story = append(d.story, "job:", lines.String())
	if err != nil {
		d.t.Errorf("the job: %v", err)
	}
	if bad := wrong.Load(); bad != nil {
		d.t.Errorf("the job: %s", *bad)
	}
	if asked := after.TotalAlloc - before.TotalAlloc; asked > most {
		d.t.Errorf("the job has asked for %d bytes of memory", asked)
	}
}

// restart restarts from what is offered, until a checkpoint can be used. What the program is
// given must be what it wrote. All ranks make the same calls.
func (d *damaged) restart(c *session.Session, rank int) (wrong error) {
	for range 10 {
		got, ok, err := c.HaveRestart()
		if err != nil || !ok {
			return wrong
		}
		if _, err := c.StartRestart(); err != nil {
			return wrong
		}
		missing, other := d.read(c, got, rank)
		wrong = errors.Join(wrong, other)
		usable := c.Agree(errors.Join(missing, other)) == nil
		if err := c.CompleteRestart(usable); err != nil || usable {
			return wrong
		}
	}
	return wrong
}

// read reads the files of a checkpoint. missing is that the program cannot have one, other
// that it gets another than it wrote.
func (d *damaged) read(c *session.Session, name string, rank int) (missing, other error) {
	var step int
	if _, err := fmt.Sscanf(name, "ckpt.%d", &step); err != nil || !strings.HasPrefix(d.kind, "goscr-") {
		return nil, nil
	}
	written := files(step, rank)
	if step == 2 && strings.HasSuffix(d.kind, "/compressed") {
		written = compressible(rank)
	}
	for file, want := range written {
		at, err := routed(c, file)
		var data []byte
		if err == nil {
			data, err = os.ReadFile(at)
		}
		switch {
		case err != nil:
			missing = errors.Join(missing, err)
		case !bytes.Equal(data, want):
			other = errors.Join(other, fmt.Errorf("rank %d: %s of %s: other bytes than were written", rank, at, name))
		}
	}
	return missing, other
}

// lines of commands; NODE0 is the control directory of that node.
var damagedCommands = []string{
	"scr_index --list", "scr_index --list --json", "scr_index --verify", "scr_index --build 1", "scr_index --build 2", "scr_index --add ckpt.2", "scr_index --drop ckpt.2",
	"scr_index --drop-after ckpt.1", "scr_index --current ckpt.2", "scr_index --repair", "scr_index --expand ckpt.2",
	"scr_copy --id 1", "scr_copy --id 2 --partner node2", "scr_copy --id 1 --crc node3",
	"scr_flush_file --dir PREFIX --list-output", "scr_flush_file --dir PREFIX --list-ckpt", "scr_flush_file --dir PREFIX --need-flush 2", "scr_flush_file --dir PREFIX --location 2",
	"scr_nodes_file --dir PREFIX", "scr_retries_halt --dir PREFIX", "scr_halt_cntl --dir PREFIX --list", "scr_halt_cntl --dir PREFIX -r why", "scr_inspect_cache",
	"scr_transfer", "scr_should_exit --prefix PREFIX", "scr_ckpt_interval", "scr_list_dir control", "scr_env", "PRINT",
}

// runCommand runs a command on a node.
func (d *damaged) runCommand() {
	d.t.Helper()
	line := damagedCommands[d.r.IntN(len(damagedCommands))]
	argv := strings.Fields(strings.ReplaceAll(line, "PREFIX", d.prefix("")))
	if line == "PRINT" {
		argv = []string{"scr_print", d.anyFile()}
	}
	node := d.r.IntN(ranks)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, argv[1:]...)
	cmd.Args[0], cmd.Dir, cmd.WaitDelay = argv[0], d.root, patience
	cmd.Env = []string{"TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + d.root}
	for name, value := range d.parameters(node) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	d.story = append(d.story, fmt.Sprintf("on node %d: %s: %v\n%s", node, strings.Join(argv, " "), err, out))
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		d.t.Errorf("%q does not end", argv)
	case err != nil && (!errors.As(err, &status) || status.ExitCode() > 2 || status.ExitCode() < 0):
		d.t.Errorf("%q: %v", argv, err)
	case bytes.Contains(out, []byte("panic:")) || bytes.Contains(out, []byte("goroutine ")) || bytes.Contains(out, []byte("internal error")):
		d.t.Errorf("%q: it has crashed", argv)
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss<<10 > most {
		d.t.Errorf("%q took %d KiB of memory", argv, use.Maxrss)
	}
}

// anyFile is one of the files there are.
func (d *damaged) anyFile() string {
	names := load(d.t, d.root).names()
	return filepath.Join(d.root, names[d.r.IntN(len(names))])
}

// The damage reaches the code behind the checksums: most hashes that are changed can be
// decoded.
func TestDamage(t *testing.T) {
	const seeds = 300
	at := filepath.Join(corpus, "goscr-1/job/prefix/.scr/index.scr")
	data, err := os.ReadFile(at)
	must(t, err)
	changed, decoded := 0, 0
	for seed := range uint64(seeds) {
		by := damage.Damager{Random: rand.New(rand.NewPCG(seed, 1)), Paths: []string{absolute}}
		out := by.Change(at, data)
		if !bytes.Equal(out, data) {
			changed++
		}
		if _, err := hash.Decode(out); err == nil {
			decoded++
		}
	}
	if changed < seeds*9/10 || decoded < seeds*7/10 {
		t.Errorf("of %d seeds, %d have changed the index, and %d can be decoded", seeds, changed, decoded)
	}
}
