package kind

import "testing"

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"no space left":                     "no space left",
		"rank 3: /p/ckpt.17/rank_3.dat":     "rank #: /p/ckpt.#/rank_#.dat",
		"node7: CRC 0xcbf43926, not 0x0, é": "#: CRC #, not #, é",
		" 12 ":                              " # ",
		"a\xff9":                            "a\xff#",
	} {
		if got := Of(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
