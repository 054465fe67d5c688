package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed page.html style.css search.js
var files embed.FS

// site is all pages, rendered.
type site struct {
	root   string
	pages  []*page
	copies []string // files that pages show or link to, by their paths in the sources
}

// page is a page of the site.
type page struct {
	source string // path in the sources
	file   string // its name in the site
	title  string
	body   template.HTML
	parts  []part
	ids    map[string]bool
	links  []link
}

// part is the text below a heading, for the search.
type part struct {
	heading, id, text string
}

// link is a link of a page to another one, or to a heading of it.
type link struct {
	file, id string
}

// name returns the name of a source in the site.
func name(source string) string {
	switch source {
	case "README.md":
		return "index.html"
	case "CONTRIBUTING.md":
		return "contributing.html"
	case "docs/decisions/README.md":
		return "decisions.html"
	}
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(source, "docs/"), ".md"), "/", "-") + ".html"
}

// read renders all pages, and checks that all sources are in a section and all links lead somewhere.
func read(root string) (*site, error) {
	s := &site{root: root}
	var sources []string
	for _, section := range sections {
		for _, p := range section.pages {
			sources = append(sources, path.Join("docs", p)+".md")
		}
	}
	there, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil {
		return nil, err
	}
	for _, source := range there {
		if !slices.Contains(sources, source) {
			return nil, fmt.Errorf("%s is in no section (scripts/site/sections.go)", source)
		}
	}
	decisions, err := fs.Glob(os.DirFS(root), "docs/decisions/*.md")
	if err != nil {
		return nil, err
	}
	for _, source := range decisions {
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	for _, source := range sources {
		p, err := s.render(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		s.pages = append(s.pages, p)
	}
	return s, s.check()
}

// check returns an error that names all links which lead nowhere.
func (s *site) check() error {
	var errs []error
	for _, p := range s.pages {
		for _, l := range p.links {
			to := s.page(l.file)
			switch {
			case to == nil:
				errs = append(errs, fmt.Errorf("%s: a link to %s, which is no page", p.source, l.file))
			case l.id != "" && !to.ids[l.id]:
				errs = append(errs, fmt.Errorf("%s: a link to #%s of %s, which has no such heading", p.source, l.id, to.source))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *site) page(file string) *page {
	for _, p := range s.pages {
		if p.file == file {
			return p
		}
	}
	return nil
}

// entry is a line of the navigation.
type entry struct {
	File, Title string
	Here        bool
}

// group is a section in the navigation of a page.
type group struct {
	Title string
	Pages []entry
	Here  bool
}

// navigation returns the sections as a page shows them.
func (s *site) navigation(p *page) []group {
	var groups []group
	for _, section := range sections {
		g := group{Title: section.title}
		for _, source := range section.pages {
			to := s.page(name(path.Join("docs", source) + ".md"))
			here := to == p || to.file == "decisions.html" && strings.HasPrefix(p.file, "decisions-")
			g.Pages = append(g.Pages, entry{to.file, to.title, here})
			g.Here = g.Here || here
		}
		groups = append(groups, g)
	}
	return groups
}

// write writes the site into a directory.
func (s *site) write(dir string) error {
	layout, err := template.ParseFS(files, "page.html")
	if err != nil {
		return err
	}
	put := func(name string, data []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o644)
	}
	for _, p := range s.pages {
		var out bytes.Buffer
		if err := layout.Execute(&out, map[string]any{"Title": p.title, "Body": p.body, "Sections": s.navigation(p), "Index": p.file == "index.html"}); err != nil {
			return err
		}
		if err := put(p.file, out.Bytes()); err != nil {
			return err
		}
	}
	for _, source := range s.copies {
		data, err := os.ReadFile(filepath.Join(s.root, source))
		if err != nil {
			return err
		}
		if err := put(copied(source), data); err != nil {
			return err
		}
	}
	index, err := s.index()
	if err != nil {
		return err
	}
	for _, name := range []string{"style.css", "search.js"} {
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := put(name, data); err != nil {
			return err
		}
	}
	return put("search-index.js", index)
}

// index returns a script with what the search looks through: for each heading the file of the page, its
// title, the heading, its id, and the text below.
func (s *site) index() ([]byte, error) {
	var all [][5]string
	for _, p := range s.pages {
		for _, part := range p.parts {
			all = append(all, [5]string{p.file, p.title, part.heading, part.id, part.text})
		}
	}
	data, err := json.Marshal(all)
	return slices.Concat([]byte("window.searchIndex = "), data, []byte(";\n")), err
}
