package celtext_test

import (
	"testing"

	"github.com/tranche-dev/tranche/internal/testseed"
)

func TestMain(m *testing.M) { testseed.Main(m) }
