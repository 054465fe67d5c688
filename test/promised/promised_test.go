package promised

import (
	"slices"
	"testing"
)

func TestDifferences(t *testing.T) {
	gone, added := Differences([]string{"int f(void)", "int g(void)"}, []string{"int g(int)", "int f(void)", "int g(int)"})
	if !slices.Equal(gone, []string{"int g(void)"}) || !slices.Equal(added, []string{"int g(int)"}) {
		t.Errorf("gone %q, added %q", gone, added)
	}
}
