// Package database writes the event log to a database: MySQL or MariaDB on a
// server, or SQLite in a file. Only commands import it, because its drivers are
// larger than the library.
//
// There are a table of jobs, and one of each kind of record. A table that is missing is
// created. Times are in UTC.
//
//	jobs       id  username  jobid  jobname  cluster  prefix  digest
//	events     id  job_id  time  host  type  note  dset  name  start  secs
//	transfers  id  job_id  time  host  type  from_dir  to_dir  dset  name  start  secs  bytes  files
//	phases     id  job_id  time  host  type  note  dset  name  start  secs  bytes  least  median  most  slowest_rank  slowest_node
//	runs       id  job_id  time  host  type  note  dset  name  start  secs  run  status  signum  nodes  ranks  nodelist
//
// An SQLite database has the number of this schema in its user_version.
//
// dset and name are the number and name of a dataset; start and secs say when the event
// or transfer began and how long it took. The digest is computed from the other columns of
// a job, and is unique, so that two processes that log for the same job at the same time
// enter it only once.
package database

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/sys/trust"
)

// limit is how long a database may take for one record; for tests it can be changed.
var limit = 5 * time.Second

// dialect is the part of the SQL that differs between databases.
type dialect struct {
	key    string // type of a primary key that increments
	time   string // type of a time
	ignore string // begins an INSERT that does nothing if the row exists
	text   string // option of a table that lets its texts have all characters
}

var (
	dialectMySQL  = dialect{"BIGINT PRIMARY KEY AUTO_INCREMENT", "DATETIME(6)", "INSERT IGNORE", " CHARACTER SET utf8mb4"}
	dialectSQLite = dialect{"INTEGER PRIMARY KEY", "DATETIME", "INSERT OR IGNORE", ""}
)

// DB is a database for records. Its methods must not be called by several goroutines at a
// time.
type DB struct {
	at    eventlog.Database
	debug io.Writer
	dialect
	db    *sql.DB
	ready map[string]bool        // the tables that exist
	jobs  map[eventlog.Job]int64 // ids of the jobs that were looked up
}

// Open prepares a DB, which connects to the database when the first record is written. If
// at.Debug is set, statements are shown on debug.
func Open(at eventlog.Database, debug io.Writer) (*DB, error) {
	d := &DB{at: at, dialect: dialectSQLite, ready: map[string]bool{}, jobs: map[eventlog.Job]int64{}}
	if at.Debug {
		d.debug = debug
	}
	if at.Host == "" {
		if err := trust.CheckPlain(at.File); err != nil {
			return nil, err
		}
		file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: at.File}).EscapedPath(), RawQuery: url.Values{
			"_pragma": {fmt.Sprintf("busy_timeout(%d)", limit.Milliseconds())},
			"_txlock": {"immediate"},
		}.Encode()}
		db, err := sql.Open("sqlite", file.String())
		d.db = db
		return d, err
	}
	d.dialect = dialectMySQL
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = at.User, at.Password, at.Name
	c.Net, c.Addr = "tcp", at.Host
	if strings.HasPrefix(at.Host, "/") {
		c.Net = "unix"
	} else if !strings.Contains(strings.TrimSuffix(at.Host, "]"), ":") {
		c.Addr += ":3306"
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = limit, limit, limit
	c.Logger = &mysql.NopLogger{} // the driver returns the same errors
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	d.db = sql.OpenDB(connector)
	return d, nil
}

// Close ends the connection.
func (d *DB) Close() error { return d.db.Close() }

// where names the database in messages.
func (d *DB) where() string {
	if d.at.Host == "" {
		return d.at.File
	}
	return fmt.Sprintf("%s on %s as user %s", d.at.Name, d.at.Host, d.at.User)
}

// Write adds a record.
func (d *DB) Write(r eventlog.Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := d.write(ctx, &r); err != nil {
		return fmt.Errorf("database %s: %w", d.where(), err)
	}
	return nil
}

func (d *DB) write(ctx context.Context, r *eventlog.Record) error {
	table := tableOf(r)
	for _, t := range []string{"jobs", table} {
		if err := d.table(ctx, t); err != nil {
			return err
		}
	}
	job, err := d.job(ctx, r.Job)
	if err != nil {
		return err
	}
	columns := []string{"job_id", "time", "host", "type", "dset", "name", "start", "secs"}
	values := []any{job, stamp(r.Time), cut(r.Job.Host, short), cut(r.Type, short),
		known(r.Dataset), known(cut(r.Name, long)), known(stamp(r.Start)), r.Seconds}
	add := func(column string, value any) { columns, values = append(columns, column), append(values, value) }
	if r.Transfer {
		add("from_dir", known(cut(r.From, long)))
		add("to_dir", known(cut(r.To, long)))
	} else {
		add("note", known(cut(r.Note, long)))
	}
	if r.Transfer || r.Spread != nil {
		add("bytes", r.Bytes)
	}
	if r.Transfer {
		add("files", r.Files)
	}
	if s := r.Spread; s != nil && table == "phases" {
		add("least", s.Least)
		add("median", s.Median)
		add("most", s.Most)
		add("slowest_rank", s.Rank)
		add("slowest_node", known(cut(s.Node, short)))
	}
	if run := r.Run; run != nil && table == "runs" {
		add("run", known(run.Number))
		add("status", run.Status)
		add("signum", known(run.Signal))
		add("nodes", known(run.Nodes))
		add("ranks", known(run.Ranks))
		add("nodelist", known(cut(run.NodeList, long)))
	}
	return d.exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "),
		strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")), values...)
}

// tableOf returns the table that a record belongs in.
func tableOf(r *eventlog.Record) string {
	switch {
	case r.Transfer:
		return "transfers"
	case r.Spread != nil:
		return "phases"
	case r.Run != nil:
		return "runs"
	}
	return "events"
}

// known returns v, or nil for NULL if v is the zero value.
func known[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

// stamp formats a time for the databases; it returns "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000")
}

const (
	short = 255   // characters in a VARCHAR(255)
	long  = 16000 // characters in a TEXT, which holds 65535 bytes
)

// cut shortens text to the length of a column. Otherwise the database would reject the
// record, and Serve would try again until the job ends.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}

// schema is the version of the tables.
const schema = 1

// columns returns the columns of a table.
func (d *DB) columns(table string) string {
	common := fmt.Sprintf("id %s, job_id BIGINT NOT NULL, time %s NOT NULL, host VARCHAR(255) NOT NULL, "+
		"type VARCHAR(255) NOT NULL, dset BIGINT, name TEXT, start %s, secs DOUBLE", d.key, d.time, d.time)
	switch table {
	case "jobs":
		return "id " + d.key + ", username VARCHAR(255) NOT NULL, jobid VARCHAR(255) NOT NULL, jobname TEXT, " +
			"cluster TEXT, prefix TEXT NOT NULL, digest CHAR(64) NOT NULL UNIQUE"
	case "transfers":
		return common + ", from_dir TEXT, to_dir TEXT, bytes BIGINT, files BIGINT"
	case "phases":
		return common + ", note TEXT, bytes BIGINT, least DOUBLE, median DOUBLE, most DOUBLE, slowest_rank BIGINT, slowest_node VARCHAR(255)"
	case "runs":
		return common + ", note TEXT, run BIGINT, status BIGINT, signum BIGINT, nodes BIGINT, ranks BIGINT, nodelist TEXT"
	}
	return common + ", note TEXT"
}

// table creates a table that is missing. If it exists it is only read, because the
// database's user may not have the right to create tables.
func (d *DB) table(ctx context.Context, name string) error {
	if d.ready[name] {
		return nil
	}
	if d.exec(ctx, "SELECT id FROM "+name+" WHERE id = 0") != nil {
		if err := d.exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+" ("+d.columns(name)+")"+d.text); err != nil {
			return err
		}
		if d.at.Host == "" {
			if err := d.exec(ctx, fmt.Sprintf("PRAGMA user_version = %d", schema)); err != nil {
				return err
			}
		}
	}
	d.ready[name] = true
	return nil
}

// job returns the id of a job, and enters the job if it is new.
func (d *DB) job(ctx context.Context, j eventlog.Job) (id int64, err error) {
	j.Host = "" // records of one job come from several hosts
	if id, ok := d.jobs[j]; ok {
		return id, nil
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{j.User, j.ID, j.Name, j.Cluster, j.Prefix}, "\x00")))
	digest := hex.EncodeToString(sum[:])
	err = d.exec(ctx, d.ignore+" INTO jobs (username, jobid, jobname, cluster, prefix, digest) VALUES (?, ?, ?, ?, ?, ?)",
		cut(j.User, short), cut(j.ID, short), known(cut(j.Name, long)), known(cut(j.Cluster, long)), cut(j.Prefix, long), digest)
	if err != nil {
		return 0, err
	}
	const query = "SELECT id FROM jobs WHERE digest = ?"
	d.show(query, digest)
	if err = d.db.QueryRowContext(ctx, query, digest).Scan(&id); err == nil {
		d.jobs[j] = id
	}
	return id, err
}

func (d *DB) exec(ctx context.Context, statement string, args ...any) error {
	d.show(statement, args...)
	_, err := d.db.ExecContext(ctx, statement, args...)
	return err
}

func (d *DB) show(statement string, args ...any) {
	if d.debug == nil {
		return
	}
	text := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case nil:
			text[i] = "NULL"
		case *float64:
			text[i] = shown(a)
		case *int64:
			text[i] = shown(a)
		case *int:
			text[i] = shown(a)
		default:
			text[i] = fmt.Sprintf("%q", fmt.Sprint(a))
		}
	}
	fmt.Fprintf(d.debug, "%s [%s]\n", statement, strings.Join(text, ", "))
}

func shown[T any](p *T) string {
	if p == nil {
		return "NULL"
	}
	return fmt.Sprint(*p)
}
