package account

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/database"
	"github.com/goscr/goscr/test/accounttest"
)

const grafana = "../../../bindings/grafana/"

// queries returns the SQL of a dashboard, by the titles of its panels.
func queries(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(grafana + "goscr.json")
	must(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RawSQL string }
		}
	}
	must(t, json.Unmarshal(data, &board))
	list := map[string]string{}
	for i, p := range board.Panels {
		for _, target := range p.Targets {
			list[fmt.Sprintf("panel %d (%s)", i, p.Title)] = target.RawSQL
		}
	}
	if len(list) < 10 {
		t.Fatalf("%d queries", len(list))
	}
	return list
}

// logged writes the log of a job to the database, with times moved so that it ends days ago.
func logged(t *testing.T, db *database.DB, text, prefix string, days int) {
	t.Helper()
	var list []eventlog.Record
	_, err := ReadText(strings.NewReader(text), func(r eventlog.Record) error { list = append(list, r); return nil })
	must(t, err)
	by := time.Now().Add(-time.Duration(days) * 24 * time.Hour).Truncate(time.Second).Sub(list[len(list)-1].Time)
	of := list[0].Job
	for _, r := range list {
		r.Time, r.Job.Prefix = r.Time.Add(by), prefix
		r.Job.User = of.User // only the first record of a run names the user: the database has all in each
		if !r.Start.IsZero() {
			r.Start = r.Start.Add(by)
		}
		must(t, db.Write(r))
	}
}

// The views and the dashboard work on a real server, and say what an Account says.
func TestViews_MySQL(t *testing.T) {
	socket := os.Getenv("GOSCR_TEST_MYSQL")
	if socket == "" {
		t.Skip("GOSCR_TEST_MYSQL does not name the socket of a server, with an empty database scrlog of user scr, password secret")
	}
	at := eventlog.Database{Host: socket, User: "scr", Password: "secret", Name: "scrlog"}
	records, err := database.Open(at, io.Discard)
	must(t, err)
	defer records.Close()
	evil := `x'); DROP TABLE jobs; -- <script>`
	one := accounttest.Job{ID: "job1", Name: "heat", Node: "node2", Runs: 2, Checkpoints: 3}.Text()
	logged(t, records, one, "/p/one", 0)
	logged(t, records, accounttest.Job{ID: "job4", Runs: 5, Checkpoints: 1}.Text(), "/p/four", 1)
	logged(t, records, accounttest.Job{ID: "job2", Name: evil, Node: evil, Runs: 1, Checkpoints: 2}.Text(), "/p/"+evil, 3)
	// The last one died, without scr_run; the run before, too.
	var bare strings.Builder
	for line := range strings.Lines(accounttest.Job{ID: "job3", Runs: 2, Checkpoints: 3}.Text()) {
		if !strings.Contains(line, "event=RUN_") && !strings.Contains(line, "FINALIZE_END") {
			bare.WriteString(line)
		}
		if strings.Contains(line, "INIT_START") && bare.Len() > len(line) {
			bare.WriteString(strings.Replace(line[:strings.Index(line, ", note=")], "INIT_START", "EARLIER_RUN_DIED", 1) + "\n")
		}
	}
	logged(t, records, bare.String(), "/p/three", 2)

	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName, c.Net, c.Addr, c.MultiStatements = at.User, at.Password, at.Name, "unix", socket, true
	connector, err := mysql.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	views, err := os.ReadFile(grafana + "views.sql")
	must(t, err)
	for range 2 { // it can be repeated
		_, err = db.Exec(string(views))
		must(t, err)
	}

	number := func(query string, args ...any) (n float64) {
		t.Helper()
		var v sql.NullFloat64
		if err := db.QueryRow(query, args...).Scan(&v); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return v.Float64
	}
	for job, prefix := range map[string]string{"job1": "/p/one", "job2": "/p/" + evil, "job3": "/p/three", "job4": "/p/four"} {
		collected := NewCollector()
		must(t, database.Read(at, prefix, collected.Add))
		a := collected.Account(time.Now())
		want := a.Totals()
		var survived int
		for i, run := range a.Runs {
			if run.Outcome == Died && i+1 < len(a.Runs) && a.Runs[i+1].From != "" {
				survived++
			}
		}
		for query, want := range map[string]float64{
			"SELECT checkpoints FROM scr_jobs WHERE jobid = ?":                        float64(want.Checkpoints),
			"SELECT failures FROM scr_jobs WHERE jobid = ?":                           float64(want.Died),
			"SELECT survived FROM scr_jobs WHERE jobid = ?":                           float64(survived),
			"SELECT lost_nodes FROM scr_jobs WHERE jobid = ?":                         float64(want.LostNodes),
			"SELECT spent FROM scr_hours JOIN scr_jobs USING (job) WHERE jobid = ?":   want.Hours.Spent,
			"SELECT saved FROM scr_hours JOIN scr_jobs USING (job) WHERE jobid = ?":   want.Hours.Saved,
			"SELECT written FROM scr_bytes JOIN scr_jobs USING (job) WHERE jobid = ?": float64(want.Bytes.Written),
			"SELECT avoided FROM scr_bytes JOIN scr_jobs USING (job) WHERE jobid = ?": float64(want.Bytes.Avoided),
		} {
			if got := number(query, job); math.Abs(got-want) > 1e-6*max(want, 1) {
				t.Errorf("%s: %s gives %v, the account has %v", job, query, got, want)
			}
		}
	}
	if n := number("SELECT COUNT(*) FROM scr_jobs"); n != 4 {
		t.Errorf("%v jobs", n)
	}
	var job, name string
	if err := db.QueryRow("SELECT jobid, name FROM scr_stale_caches").Scan(&job, &name); err != nil || job != "job3" || name != "ckpt.6" {
		t.Errorf("stale: %v %v %v", job, name, err)
	}
	if n := number("SELECT COUNT(*) FROM scr_stale_caches"); n != 1 {
		t.Errorf("%v stale caches", n)
	}

	// As Grafana replaces its macros.
	filter := regexp.MustCompile(`\$__timeFilter\(([\w.]+)\)`)
	for title, query := range queries(t) {
		query = filter.ReplaceAllString(query, "$1 BETWEEN FROM_UNIXTIME(UNIX_TIMESTAMP() - 2592000) AND FROM_UNIXTIME(UNIX_TIMESTAMP() + 86400)")
		if strings.Contains(query, "$") {
			t.Errorf("%s: what is replaced by Grafana in %s", title, query)
		}
		rows, err := db.Query(query)
		if err != nil {
			t.Errorf("%s: %v\n%s", title, err, query)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil || n == 0 {
			t.Errorf("%s: %d rows, %v", title, n, err)
		}
		rows.Close()
	}
	if n := number("SELECT COUNT(*) FROM jobs WHERE jobname = ?", evil); n == 0 {
		t.Error("the job with an odd name is not there")
	}
	_, err = db.Exec("DROP TABLE jobs, events, transfers, phases, runs")
	must(t, err)
}

// The dashboard is one that Grafana imports, and names no view that is not made.
func TestViews_Dashboard(t *testing.T) {
	views, err := os.ReadFile(grafana + "views.sql")
	must(t, err)
	made := map[string]bool{"phases": true}
	for _, m := range regexp.MustCompile(`CREATE OR REPLACE VIEW (\w+)`).FindAllSubmatch(views, -1) {
		made[string(m[1])] = true
	}
	for title, query := range queries(t) {
		for _, m := range regexp.MustCompile(`(?:FROM|JOIN) (\w+)`).FindAllStringSubmatch(query, -1) {
			if !made[m[1]] {
				t.Errorf("%s: there is no view %s", title, m[1])
			}
		}
	}
	data, err := os.ReadFile(grafana + "goscr.json")
	must(t, err)
	if bytes.Contains(data, []byte(`"uid": "P`)) || !json.Valid(data) {
		t.Error("the dashboard names a data source of one Grafana")
	}
}
