package database

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

// ErrNoLog is wrapped by the error of a database that has no log.
var ErrNoLog = errors.New("no log of goscr")

// Read passes all records of a database to each, in the order of their times, of all jobs
// or of those of a prefix directory. It changes nothing in the database.
func Read(at eventlog.Database, prefix string, each func(eventlog.Record) error) error {
	if at.Host == "" {
		if _, err := os.Stat(at.File); err != nil {
			return err
		}
	}
	d, err := Open(at, nil)
	if err != nil {
		return err
	}
	if at.Host == "" {
		d.db.Close()
		file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: at.File}).EscapedPath(), RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
		if d.db, err = sql.Open("sqlite", file.String()); err != nil {
			return err
		}
	}
	defer d.Close()
	err = d.read(prefix, each)
	if err == nil && at.Host == "" {
		err = isWhole(at.File)
	}
	if err != nil {
		return fmt.Errorf("database %s: %w", d.where(), err)
	}
	return nil
}

// isWhole returns an error if the end of an SQLite file is missing. SQLite notices that only
// if a query needs what was there.
func isWhole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [100]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLog, err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint16(header[16:])) // of a page; 1 stands for 65536
	if size == 1 {
		size = 1 << 16
	}
	if want := size * int64(binary.BigEndian.Uint32(header[28:])); info.Size() < want {
		return fmt.Errorf("the file is damaged: it has %d bytes of %d", info.Size(), want)
	}
	return nil
}

func (d *DB) read(prefix string, each func(eventlog.Record) error) error {
	ctx := context.Background()
	if d.at.Host == "" {
		var version int
		if err := d.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return fmt.Errorf("%w: %w", ErrNoLog, err)
		}
		if version > schema {
			return fmt.Errorf("%w: its schema has version %d, this goscr reads up to %d", ErrNoLog, version, schema)
		}
	}
	var parts []string
	found := 0
	for _, t := range []string{"events", "transfers", "phases", "runs"} {
		if d.exec(ctx, "SELECT id FROM "+t+" WHERE id = 0") == nil {
			found++
			parts = append(parts, selectAll(t))
		}
	}
	if found == 0 || d.exec(ctx, "SELECT id FROM jobs WHERE id = 0") != nil {
		return fmt.Errorf("%w: it has not the tables of one", ErrNoLog)
	}
	query, args := strings.Join(parts, " UNION ALL "), []any{}
	if prefix != "" {
		query = "SELECT * FROM (" + query + ") AS everything WHERE c8 = ?"
		args = append(args, prefix)
	}
	rows, err := d.db.QueryContext(ctx, query+" ORDER BY 1, 2, 3", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scan(rows)
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// extra has the columns that only some tables have, in the order of scan.
var extra = []struct{ table, columns string }{
	{"transfers", "from_dir to_dir files"},
	{"transfers phases", "bytes"},
	{"phases", "least median most slowest_rank slowest_node"},
	{"runs", "run status signum nodes ranks nodelist"},
	{"events phases runs", "note"},
}

// selectAll returns a query for all columns of all tables, with NULL for those that this
// table does not have.
func selectAll(table string) string {
	// The records of a table are in the order of their ids. Of those of one time in several
	// tables, what a run begins and ends with is first and last, and an event is before its
	// transfer and phases.
	order := map[string]string{"runs": "CASE t.type WHEN 'RUN_END' THEN 4 ELSE 0 END", "events": "1", "transfers": "2", "phases": "3"}[table]
	columns := []string{"CAST(t.time AS CHAR)", order, "t.id", "j.username", "j.jobid", "j.jobname", "j.cluster", "j.prefix",
		"t.host", "t.type", "t.dset", "t.name", "CAST(t.start AS CHAR)", "t.secs"}
	for _, e := range extra {
		has := strings.Contains(" "+e.table+" ", " "+table+" ")
		for _, column := range strings.Fields(e.columns) {
			if has {
				columns = append(columns, "t."+column)
			} else {
				columns = append(columns, "NULL")
			}
		}
	}
	for i := range columns { // MariaDB takes no two columns of one name in a subquery
		columns[i] += fmt.Sprintf(" AS c%d", i+1)
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + table + " t JOIN jobs j ON j.id = t.job_id"
}

// scan reads a row of selectAll.
func scan(rows *sql.Rows) (r eventlog.Record, err error) {
	var (
		order, id                                        int64
		stamp                                            string
		user, job, jobname, cluster, prefix, host, kind  sql.NullString
		name, start, from, to, node, nodelist, note      sql.NullString
		dset, rank, number, status, signal, nodes, ranks sql.NullInt64
		secs, least, median, most                        sql.NullFloat64
		files, bytes                                     sql.NullInt64
	)
	if err := rows.Scan(&stamp, &order, &id, &user, &job, &jobname, &cluster, &prefix, &host, &kind, &dset, &name, &start, &secs,
		&from, &to, &files, &bytes, &least, &median, &most, &rank, &node, &number, &status, &signal, &nodes, &ranks, &nodelist, &note); err != nil {
		return r, err
	}
	r.Job = eventlog.Job{Host: host.String, User: user.String, ID: job.String, Name: jobname.String, Cluster: cluster.String, Prefix: prefix.String}
	r.Type, r.Transfer, r.Note, r.From, r.To = kind.String, order == 2, note.String, from.String, to.String
	r.Dataset, r.Name = int(dset.Int64), name.String
	if r.Time, err = parse(stamp); err != nil {
		return r, fmt.Errorf("%w: row %d of type %.40q: %w", ErrNoLog, id, r.Type, err)
	}
	if start.Valid {
		if r.Start, err = parse(start.String); err != nil {
			return r, fmt.Errorf("%w: row %d of type %.40q: %w", ErrNoLog, id, r.Type, err)
		}
	}
	if secs.Valid {
		r.Seconds = &secs.Float64
	}
	if files.Valid {
		r.Files = &files.Int64
	}
	if bytes.Valid {
		r.Bytes = &bytes.Int64
	}
	if order == 3 {
		r.Spread = &eventlog.Spread{Least: least.Float64, Median: median.Float64, Most: most.Float64, Rank: int(rank.Int64), Node: node.String}
	}
	if order == 0 || order == 4 {
		r.Run = &eventlog.Run{Number: int(number.Int64), Signal: int(signal.Int64), Nodes: int(nodes.Int64), Ranks: int(ranks.Int64), NodeList: nodelist.String}
		if status.Valid {
			n := int(status.Int64)
			r.Run.Status = &n
		}
	}
	return r, nil
}

// parse reads a time that stamp has written, as the drivers return it.
func parse(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999", time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time", text)
}
