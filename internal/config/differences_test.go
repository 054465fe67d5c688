package config

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// defaults31 are the parameters of SCR 3.1.0 that the library or its commands look at, with
// the defaults that it is compiled with; "" is none.
var defaults31 = map[string]string{
	"SCR_ENABLE": "1", "SCR_DEBUG": "0", "SCR_PREFIX": "$PWD", "SCR_CONF_FILE": "$SCR_PREFIX/.scrconf", "SCR_USER_NAME": "", "SCR_JOB_ID": "defjobid",
	"SCR_JOB_NAME": "", "SCR_CLUSTER_NAME": "", "SCR_CNTL_BASE": "/dev/shm", "SCR_CACHE_BASE": "/dev/shm", "SCR_CACHE_SIZE": "1", "SCR_CACHE_BYPASS": "1",
	"SCR_CACHE_PURGE": "0", "SCR_COPY_TYPE": "XOR", "SCR_GROUP": "NODE", "SCR_SET_SIZE": "8", "SCR_SET_FAILURES": "2", "SCR_MPI_BUF_SIZE": "1m",
	"SCR_FILE_BUF_SIZE": "32m", "SCR_COPY_METADATA": "1", "SCR_AXL_MKDIR": "0", "SCR_DISTRIBUTE": "1", "SCR_FETCH": "1", "SCR_FETCH_BYPASS": "0",
	"SCR_FETCH_WIDTH": "256", "SCR_FLUSH_WIDTH": "256", "SCR_CURRENT": "", "SCR_DROP_AFTER_CURRENT": "0", "SCR_FLUSH": "10", "SCR_FLUSH_TYPE": "SYNC",
	"SCR_FLUSH_ASYNC_BW": "200m", "SCR_FLUSH_ASYNC_PERCENT": "0", "SCR_FLUSH_ASYNC": "0", "SCR_FLUSH_ASYNC_USLEEP": "1000", "SCR_FLUSH_POSTSTAGE": "0",
	"SCR_FLUSH_ON_RESTART": "0", "SCR_GLOBAL_RESTART": "0", "SCR_PREFIX_SIZE": "0", "SCR_PREFIX_PURGE": "0", "SCR_CRC_ON_COPY": "0",
	"SCR_CRC_ON_FLUSH": "1", "SCR_CRC_ON_DELETE": "0", "SCR_CHECKPOINT_INTERVAL": "0", "SCR_CHECKPOINT_SECONDS": "0", "SCR_CHECKPOINT_OVERHEAD": "0",
	"SCR_HALT_SECONDS": "0", "SCR_HALT_EXIT": "0", "SCR_LOG_ENABLE": "0", "SCR_LOG_TXT_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "1",
	"SCR_LOG_DB_ENABLE": "0", "SCR_LOG_DB_DEBUG": "0", "SCR_LOG_DB_HOST": "", "SCR_LOG_DB_USER": "", "SCR_LOG_DB_PASS": "", "SCR_LOG_DB_NAME": "",
	"SCR_RUNS": "1", "SCR_RETRIES": "", "SCR_MIN_NODES": "", "SCR_NODELIST": "", "SCR_WATCHDOG": "0", "SCR_EXCLUDE_NODES": "",
	"SCR_WATCHDOG_TIMEOUT": "", "SCR_WATCHDOG_TIMEOUT_PFS": "", "SCR_END_TIME": "",
}

// unlimited are parameters without a default in SCR, of which ours says the same in a number.
var unlimited = map[string]string{"SCR_RETRIES": "-1", "SCR_MIN_NODES": "0", "SCR_WATCHDOG_TIMEOUT": "0", "SCR_WATCHDOG_TIMEOUT_PFS": "0", "SCR_END_TIME": "0"}

const differencesPage = "../../docs/differences.md"

var (
	inCode = regexp.MustCompile("`([^`]+)`")
	placed = regexp.MustCompile("^(environment|user|system): (.*)$")
)

// table returns the cells of the table below a heading of a page.
func table(t *testing.T, file, heading string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(page), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %s", file, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for line := range strings.SplitSeq(rest, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		t.Fatalf("%s has no table below %s", file, heading)
	}
	return rows[1:]
}

func codes(cell string) (list []string) {
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		list = append(list, m[1])
	}
	return list
}

// Each parameter of SCR is one of ours, with its default or a row that tells both.
func TestDifferences_Defaults(t *testing.T) {
	told := map[string][]string{}
	for _, cells := range table(t, differencesPage, "## Defaults") {
		for _, name := range codes(cells[0]) {
			told[name] = cells
		}
	}
	for name, theirs := range defaults31 {
		p := find(Parameters, name)
		if p == nil {
			t.Errorf("there is no parameter %s", name)
			continue
		}
		cells := told[name]
		delete(told, name)
		if same := p.Default == theirs || theirs == "" && p.Default == unlimited[name]; same {
			if cells != nil {
				t.Errorf("docs/differences.md tells a difference of %s, where there is none", name)
			}
			continue
		}
		if cells == nil {
			t.Errorf("docs/differences.md does not tell that %s is %q in SCR and %q here", name, theirs, p.Default)
			continue
		}
		for i, value := range []string{theirs, p.Default} {
			if cell := strings.ReplaceAll(cells[i+1], "`", ""); value != "" && cell != value && !strings.HasPrefix(cell, value+":") {
				t.Errorf("docs/differences.md: %s: %q, want %q", name, cell, value)
			}
		}
	}
	for name := range told {
		t.Errorf("docs/differences.md tells the default of %s, which this test does not know", name)
	}
}

// docs/differences.md has the rows in which goscr differs or that have a remark, and no others.
func TestDifferences_SettingsAreTold(t *testing.T) {
	var want [][]string
	for _, cells := range table(t, "testdata/scr31.md", "# Settings as SCR 3.1 understands them") {
		if len(cells) == 6 && cells[3]+cells[5] != "" {
			want = append(want, cells)
		}
	}
	if got := table(t, differencesPage, "## Settings"); !slices.EqualFunc(got, want, slices.Equal) || len(want) == 0 {
		t.Errorf("docs/differences.md has %q\nand testdata/scr31.md %q", got, want)
	}
}

// Each row of the table of settings is true: the calls answer what it says, before SCR_Init
// and after it.
func TestDifferences_Settings(t *testing.T) {
	rows := table(t, "testdata/scr31.md", "# Settings as SCR 3.1 understands them")
	for _, cells := range rows {
		if len(cells) != 6 {
			t.Fatalf("%d cells: %q", len(cells), cells)
		}
		t.Run(cells[0], func(t *testing.T) {
			prefix := t.TempDir()
			files := map[string]string{}
			environ := []string{"SCR_PREFIX=" + prefix, "U=anna", "U2=bert"}
			for _, text := range codes(cells[1]) {
				m := placed.FindStringSubmatch(text)
				switch {
				case m == nil:
					t.Fatalf("%q is no place and a setting", text)
				case m[1] == "environment":
					environ = append(environ, m[2])
				case strings.HasSuffix(m[2], `\r\n`):
					files[m[1]] += strings.TrimSuffix(m[2], `\r\n`) + "\r\n"
				default:
					files[m[1]] += m[2] + "\n"
				}
			}
			useSystemFile(t, files["system"])
			writeFile(t, prefix+"/.scrconf", files["user"])
			calls, want := codes(cells[2]), cells[4]
			if strings.Contains(cells[1], "a directory in place of the user's file") {
				must(t, os.Remove(prefix+"/.scrconf"))
				must(t, os.Mkdir(prefix+"/.scrconf", 0o700))
			}
			s := &Settings{Environ: env(environ...)}
			ask := s.Config
			got := ""
			for i, call := range calls {
				if call == "SCR_Init" {
					cfg, _, err := Load(nil, s, nil)
					got = told("", false, err)
					if err == nil {
						ask = cfg.Query
					}
					continue
				}
				got = told(ask(call))
				if i < len(calls)-1 && got != "NULL" {
					t.Errorf("%s: %s", call, got)
				}
			}
			if got != want {
				t.Errorf("%q answers %s, want %s", calls, got, want)
			}
			if slices.Contains(calls, "SCR_Init") || want == "error" {
				return
			}
			if cfg, _, err := Load(nil, s, nil); err != nil {
				t.Error(err)
			} else if got := told(cfg.Query(calls[len(calls)-1])); got != want && strings.Contains(calls[len(calls)-1], "=") == strings.Contains(calls[len(calls)-1], " ") {
				t.Errorf("%q answers %s after SCR_Init, want %s", calls, got, want)
			}
		})
	}
}

func told(text string, ok bool, err error) string {
	switch {
	case errors.Is(err, ErrAmbiguous):
		return "NULL, ambiguous"
	case err != nil:
		return "error"
	case !ok:
		return "NULL"
	}
	return "`" + text + "`"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
