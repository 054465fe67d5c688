package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// render makes a page of a source.
func (s *site) render(source string) (*page, error) {
	data, err := os.ReadFile(filepath.Join(s.root, source))
	if err != nil {
		return nil, err
	}
	p := &page{source: source, file: name(source), ids: map[string]bool{}}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe())) // tables have <br>, and the pages are ours
	ids := &slugs{used: map[string]int{}}
	tree := markdown.Parser().Parse(text.NewReader(data), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	var failed error
	var directories []ast.Node
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			heading := plain(n, data)
			p.ids[string(id.([]byte))] = true
			if p.title == "" {
				p.title = heading
			}
			p.parts = append(p.parts, part{heading: heading, id: string(id.([]byte))})
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			if err := s.direct(p, &n.Destination); err == errNoPage {
				directories = append(directories, n)
			} else if err != nil && failed == nil {
				failed = err
			}
		case *ast.Image:
			if err := s.direct(p, &n.Destination); err != nil && failed == nil {
				failed = err
			}
		case *ast.Text:
			p.add(string(n.Value(data)))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				p.add(string(line.Value(data)))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil || failed != nil {
		return nil, cmp.Or(err, failed)
	}
	for _, n := range directories {
		unlink(n)
	}
	if p.title == "" {
		return nil, fmt.Errorf("has no heading")
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, data, tree); err != nil {
		return nil, err
	}
	p.body = template.HTML(out.String())
	return p, nil
}

// add adds text to the last part of a page.
func (p *page) add(text string) {
	if len(p.parts) > 0 {
		last := &p.parts[len(p.parts)-1]
		last.text = strings.TrimSpace(last.text + " " + strings.TrimSpace(text))
	}
}

// errNoPage is the error of a link to a directory without a README.md, which is shown as text.
var errNoPage = errors.New("a link to a directory without README.md")

// direct changes the destination of a link or a picture to that in the site.
func (s *site) direct(p *page, destination *[]byte) error {
	to, err := url.Parse(string(*destination))
	if err != nil {
		return err
	}
	if to.Scheme != "" {
		return nil
	}
	if to.Path == "" {
		p.links = append(p.links, link{p.file, to.Fragment})
		return nil
	}
	source := path.Join(path.Dir(p.source), to.Path)
	if strings.HasPrefix(source, "../") {
		return fmt.Errorf("a link to %s, which is outside of the sources", to.Path)
	}
	info, err := os.Stat(filepath.Join(s.root, source))
	if err != nil {
		return fmt.Errorf("a link to %s, which is not there", to.Path)
	}
	if isPage := source == "README.md" || source == "CONTRIBUTING.md" || strings.HasPrefix(source, "docs/") && strings.HasSuffix(source, ".md"); isPage {
		p.links = append(p.links, link{name(source), to.Fragment})
		to.Path = name(source)
		*destination = []byte(to.String())
		return nil
	}
	if info.IsDir() {
		readme := path.Join(source, "README.md")
		if _, err := os.Stat(filepath.Join(s.root, readme)); err != nil {
			return errNoPage
		}
		source = readme
	}
	if !slices.Contains(s.copies, source) {
		s.copies = append(s.copies, source)
	}
	*destination = []byte((&url.URL{Path: copied(source), Fragment: to.Fragment}).String())
	return nil
}

// unlink puts the text of a link in its place.
func unlink(n ast.Node) {
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; {
		next := c.NextSibling()
		parent.InsertBefore(parent, n, c)
		c = next
	}
	parent.RemoveChild(parent, n)
}

// copied returns where a file of the sources is in the site. Browsers show text, but not all kinds of it.
func copied(source string) string {
	if strings.HasPrefix(source, "docs/img/") {
		return strings.TrimPrefix(source, "docs/")
	}
	return "files/" + source + ".txt"
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// slugs gives headings the ids by which pages link to them, those of GitHub: letters, digits, - and _ of the
// heading in lower case, with a hyphen for each space, and a number if there are several.
type slugs struct {
	used map[string]int
}

func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := s.used[slug]
	s.used[slug]++
	if n > 0 {
		slug = fmt.Sprintf("%s-%d", slug, n)
	}
	return []byte(slug)
}

func (s *slugs) Put(value []byte) { s.used[string(value)]++ }
