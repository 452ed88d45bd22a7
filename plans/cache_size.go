package plans

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// streamFrom is the number of bytes of its tensors from which a run stores
// around the caches: what does not fit them. Tests lower it.
var streamFrom = lastLevelCache()

// defaultCache is the size of the last-level cache where it is not known.
const defaultCache = 32 << 20

// lastLevelCache returns the size in bytes of the largest cache that a CPU uses.
func lastLevelCache() int64 {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
	largest := int64(0)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		kilobytes, isKilo := strings.CutSuffix(strings.TrimSpace(string(text)), "K")
		if n, err := strconv.ParseInt(kilobytes, 10, 64); err == nil && isKilo {
			largest = max(largest, n<<10)
		}
	}
	if largest == 0 {
		return defaultCache
	}
	return largest
}
