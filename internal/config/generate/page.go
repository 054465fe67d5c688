package main

import (
	"fmt"
	"strings"

	"github.com/goscr/goscr/internal/config"
)

// itemsTitle is the heading above the table of items.
const itemsTitle = "Lines of several fields"

// page returns docs/config.md with new tables, made from the table of parameters. Each is
// below the heading with the title of its section; the text around them is written by hand
// and stays.
func page(old string) (string, error) {
	tables := map[string]string{itemsTitle: table(items())}
	for _, s := range config.Sections {
		var rows []row
		for _, p := range s.Parameters {
			r := row{p, p.Name, p.Name + "=" + p.Example}
			if p.Scope == config.Rank {
				r.Help += " (each rank's)"
			}
			rows = append(rows, r)
		}
		tables[s.Title] = table(rows)
	}
	var b strings.Builder
	title := ""
	for line := range strings.Lines(old) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			title = strings.TrimSpace(heading)
		}
		if !strings.HasPrefix(line, "|") {
			b.WriteString(line)
			continue
		}
		b.WriteString(tables[title]) // in place of the first row of the old table
		delete(tables, title)
	}
	for title := range tables {
		return "", fmt.Errorf("there is no table below ## %s", title)
	}
	return b.String(), nil
}

// row is a parameter with the name and the example that the page shows.
type row struct {
	config.Parameter
	name, example string
}

// items returns a row for each kind of items and each of its fields.
func items() (rows []row) {
	for _, kind := range config.ItemKinds {
		rows = append(rows, row{kind.Parameter, kind.Name, kind.Example})
		for _, f := range kind.Fields {
			rows = append(rows, row{f, kind.Name + " " + f.Name, f.Example})
		}
	}
	return rows
}

// kinds are the entries in the column of units for values without a unit.
var kinds = map[config.Type]string{
	config.Text: "text", config.Name: "name", config.Path: "path", config.Int: "number", config.Bool: "0 or 1", config.BoolOrAuto: "0, 1 or AUTO",
}

func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| parameter | default | unit | example | what it does |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		unit := r.Unit
		if unit == "" {
			unit = kinds[r.Type]
		}
		cells := []string{"`" + r.name + "`", whenUnset(r.Parameter), unit, "`" + r.example + "`", r.Help}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// whenUnset is the entry in the column of defaults.
func whenUnset(p config.Parameter) string {
	switch {
	case p.Default == "" && p.Unset == "":
		return "none"
	case p.Default == "":
		return p.Unset
	case p.Unset == "":
		return "`" + p.Default + "`"
	}
	return "`" + p.Default + "`, " + p.Unset
}
