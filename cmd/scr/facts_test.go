package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/test/scavengetest"
)

// printFacts are the commands that print facts, each with arguments for which it has some: $P is
// a prefix directory with a checkpoint, $N a node that has it in its cache. All others do
// something, and print what they do.
var printFacts = map[string]string{
	"scr_index": "--list", "scr_flush_file": "--latest", "scr_inspect_cache": "--cntldir $N/user/scr.job", "scr_nodes_file": "",
	"scr_status": "", "scr_doctor": "--offline", "scr_report": "", "scr_du": "--base $N", "scr_clean": "--dry-run --force --base $N", "scr_print": "$P/.scr/index.scr", "scr_crc32": "$P/.scr/index.scr",
	"scr_mpi": "--list --libdir $P/lib", "scr_checkpoint": "--list", "scr_restart": "--info", "scr_halt": "--list", "scr_halt_cntl": "--list",
	"scr_retries_halt": "", "scr_should_exit": "--runs 0", "scr_ckpt_interval": "--cost 30 --mtbf 3600", "scr_env": "--user --nodes", "scr_list_dir": "cache",
	"scr_list_down_nodes": "", "scr_check_node": "--cntl $N", "scr_glob_hosts": "--expand n[1-3]", "scr_hostlist": "n[1-3]", "scr_test_runtime": "",
}

var printNoFacts = []string{
	"scr_run", "scr_migrate", "scr_preload", "scr_postrun", "scr_scavenge", "scr_copy", "scr_rebuild_xor", "scr_rebuild_partner", "scr_rebuild_rs",
	"scr_prerun", "scr_kill_jobstep", "scr_stacks", "scr_log_event", "scr_log_transfer", "scr_transfer", "scr_handover", "scr_log_recorder",
}

// ofFacts makes what the arguments of printFacts name, and returns their words.
func ofFacts(t *testing.T) func(name string) []string {
	t.Helper()
	c := scavengetest.New(t, "SCR_FLUSH=1", "SCR_RECORD=1", "SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_TXT_ENABLE=1", "SCR_LOG_DB_ENABLE=0")
	ended(c, []string{"n1"}, 1)
	t.Setenv("SCR_NODELIST", "n1")
	t.Setenv("SCR_HOST_FILE", filepath.Join(c.Root(), "hosts"))
	must(t, os.WriteFile(filepath.Join(c.Root(), "hosts"), []byte("localhost\n"), 0o600))
	t.Setenv("SCR_REMOTE_SHELL", "SSH")
	t.Setenv("SCR_EXCLUDE_NODES", "localhost,n1")
	t.Setenv("SCR_JOB_ID", "job")
	lib := c.Path("lib/goscr/openmpi")
	must(t, os.MkdirAll(lib, 0o777))
	must(t, os.WriteFile(filepath.Join(lib, "mpi"), []byte("openmpi 4.1.4\n"), 0o666))
	must(t, os.WriteFile(filepath.Join(lib, "libscr.so"), nil, 0o666))
	t.Setenv("SCR_PREFIX", c.Prefix())
	return func(name string) []string {
		return strings.Fields(strings.NewReplacer("$P", c.Prefix(), "$N", c.Node("n1")).Replace(printFacts[name]))
	}
}

// Every command that prints facts writes them as JSON, and only as JSON, with the same exit
// status.
func TestCommands_JSON(t *testing.T) {
	arguments := ofFacts(t)
	for _, c := range commands {
		name := c.names[0]
		_, prints := printFacts[name]
		if prints == slices.Contains(printNoFacts, name) {
			t.Errorf("%s: say in one of the lists whether it prints facts", name)
		}
		if has := c.flags().Lookup("json") != nil; has != prints {
			t.Errorf("%s has --json: %v", name, has)
		}
		if !prints {
			continue
		}
		argv := append([]string{name}, arguments(name)...)
		var status int
		text := capture(argv, &status)
		var with int
		out := capture(append(argv, "--json"), &with)
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil || with != status || value == nil {
			t.Errorf("%q: %v, status %d, without --json %d\n%s%s", argv, err, with, status, out, text)
		}
		if status == 2 {
			t.Errorf("%q is called in the wrong way", argv)
		}
		// Keys have one style, unless they are data: keys of hash files, paths, and phases in capitals.
		if !slices.Contains([]string{"scr_print", "scr_halt", "scr_halt_cntl", "scr_crc32"}, name) {
			for _, key := range keysOf(value) {
				if !regexp.MustCompile(`^([a-z][a-z0-9]*(_[a-z0-9]+)*|[A-Z]+)$`).MatchString(key) {
					t.Errorf("%s: key %q", name, key)
				}
			}
		}
	}
}

// keysOf are the keys of all objects in a value of JSON.
func keysOf(value any) (list []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			list = append(append(list, key), keysOf(child)...)
		}
	case []any:
		for _, child := range v {
			list = append(list, keysOf(child)...)
		}
	}
	return list
}

// capture returns what a command writes to standard output.
func capture(argv []string, status *int) string {
	var o, e strings.Builder
	*status = execute(argv, &context{in: strings.NewReader(""), out: &o, err: &e})
	return o.String()
}

// ages are times since something, which pass between two commands.
var ages = regexp.MustCompile(`\b[0-9]+\.[0-9]+ ?s\b`)

// Every command that reads the prefix directory takes it in the same ways: -p DIR, --prefix
// DIR, SCR_PREFIX, or the working directory.
func TestCommands_Prefix(t *testing.T) {
	arguments := ofFacts(t)
	dir := os.Getenv("SCR_PREFIX")
	for _, c := range commands {
		name := c.names[0]
		p := c.flags().Lookup("prefix")
		of := slices.Contains(c.environ, "SCR_PREFIX")
		if p == nil {
			if of && !slices.Contains([]string{"scr_log_event", "scr_log_transfer", "scr_log_recorder", "scr_test_runtime", "scr_stacks"}, name) {
				t.Errorf("%s depends on SCR_PREFIX and has no --prefix", name)
			}
			continue
		}
		if p.Shorthand != "p" {
			t.Errorf("%s has no -p", name)
		}
		if !of {
			t.Errorf("%s has --prefix, and its page does not say that it depends on SCR_PREFIX", name)
		}
		if _, prints := printFacts[name]; !prints {
			continue
		}
		outs := map[string]string{}
		for _, way := range []string{"-p", "--prefix", "SCR_PREFIX", "."} {
			t.Setenv("SCR_PREFIX", "")
			must(t, os.Unsetenv("SCR_PREFIX"))
			t.Chdir("/")
			argv := append([]string{name}, arguments(name)...)
			switch way {
			case "SCR_PREFIX":
				t.Setenv("SCR_PREFIX", dir)
			case ".":
				t.Chdir(dir)
			default:
				argv = append(argv, way, dir)
			}
			var status int
			out := ages.ReplaceAllString(strings.Join(strings.Fields(capture(argv, &status)), " "), "TIME")
			outs[way] = fmt.Sprintf("%s (status %d)", out, status)
		}
		for way, out := range outs {
			if out != outs["-p"] {
				t.Errorf("%s with %s writes %q, with -p %q", name, way, out, outs["-p"])
			}
		}
	}
}

// Every command has a group of the overview and exit statuses in words, and no letter of an
// option means two things.
func TestCommands_Uniform(t *testing.T) {
	about := map[string]string{"p": "prefix", "v": "verbose"}
	for _, c := range commands {
		if c.short == "" || strings.HasSuffix(c.short, ".") {
			t.Errorf("%s: %q is no line that says what it does", c.names[0], c.short)
		}
		for i, text := range c.exit.texts() {
			if text == "" && (i > 0 || c.exit.intro == "") && i < 2 {
				t.Errorf("%s: status %d has no meaning", c.names[0], i)
			}
		}
		c.flags().VisitAll(func(f *pflag.Flag) {
			if want := about[f.Shorthand]; want != "" && f.Name != want {
				t.Errorf("%s: -%s is --%s, not --%s", c.names[0], f.Shorthand, f.Name, want)
			}
		})
	}
}
