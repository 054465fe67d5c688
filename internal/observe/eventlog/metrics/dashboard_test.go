package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

const dashboard = "../../../../bindings/grafana/goscr-prometheus.json"

// expressions returns the PromQL of the dashboard, by the titles of its panels.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(dashboard)
	must(t, err)
	if bytes.Contains(data, []byte(`"uid": "P`)) {
		t.Error("the dashboard names a data source of one Grafana")
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(data, &board))
	list := map[string]string{}
	variables := strings.NewReplacer("$__rate_interval", "10m", "$__range", "1h", "$job", ".*")
	for _, p := range board.Panels {
		for i, target := range p.Targets {
			list[fmt.Sprintf("%s %d", p.Title, i)] = variables.Replace(target.Expr)
		}
	}
	if len(list) < 10 {
		t.Fatalf("%d expressions", len(list))
	}
	return list
}

// recordedAll is what goscr writes of a job, and scr_run of its runs.
func recordedAll(t *testing.T) string {
	t.Helper()
	fetch := eventlog.Record{Transfer: true, Type: "FETCH", Dataset: 1, Bytes: eventlog.Count(100)}
	return recorded(t, "", job, append([]eventlog.Record{fetch}, allRecords()...)...) + recorded(t, "run_", job, runRecords()...)
}

// The dashboard names no metric and no label that goscr does not write.
func TestDashboard_Metrics(t *testing.T) {
	text := recordedAll(t)
	for title, expr := range expressions(t) {
		for _, name := range regexp.MustCompile(`goscr_\w+`).FindAllString(expr, -1) {
			if !strings.Contains(text, "\n"+name+"{") {
				t.Errorf("%s: no file has %s", title, name)
			}
		}
		for _, m := range regexp.MustCompile(`(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				if !strings.Contains(text, name+`="`) {
					t.Errorf("%s: no metric has a label %s", title, name)
				}
			}
		}
	}
}

// Prometheus evaluates every expression of the dashboard to at least one sample, from what goscr writes.
func TestDashboard_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool; scripts/deps prometheus installs it")
	}
	// Each metric counts up by what the file has, once a minute.
	var series strings.Builder
	for line := range strings.Lines(recordedAll(t)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		step := value
		if !strings.Contains(line, "_total{") {
			step = "0"
		}
		if strings.HasPrefix(name, "goscr_job_running{") || strings.HasPrefix(name, "goscr_run_running{") {
			value = "1"
		}
		fmt.Fprintf(&series, "      - series: '%s}'\n        values: '%s+%sx60'\n", strings.ReplaceAll(name, "'", "''"), value, step)
	}
	evaluate := func(list map[string]string) (string, error) {
		dir := t.TempDir()
		var tests strings.Builder
		for _, expr := range list {
			fmt.Fprintf(&tests, "      - expr: %q\n        eval_time: 1h\n        exp_samples:\n          - labels: '{}'\n            value: 1\n",
				"clamp(count("+expr+"), 1, 1)")
		}
		must(t, os.WriteFile(filepath.Join(dir, "none.yml"), []byte("groups: []\n"), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "test.yml"), []byte("rule_files: [none.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n"+
			series.String()+"    promql_expr_test:\n"+tests.String()), 0o600))
		out, err := exec.Command(promtool, "test", "rules", filepath.Join(dir, "test.yml")).CombinedOutput()
		return string(out), err
	}
	if out, err := evaluate(expressions(t)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, wrong := range []string{"sum(goscr_checkpoint_total)", "sum by (jobid"} { // it can fail
		if _, err := evaluate(map[string]string{"wrong": wrong}); err == nil {
			t.Errorf("promtool finds a sample of %s", wrong)
		}
	}
}
