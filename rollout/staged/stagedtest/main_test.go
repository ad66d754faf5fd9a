package stagedtest_test

import (
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
