package digest

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// Expiry returns the expiry time that a token itself states; zero if it is not a JSON web token or states none. It does not check the
// signature: only the API server that issued the token can do so.
func Expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"` // seconds, possibly with a fraction
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expires <= 0 || claims.Expires > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0).UTC()
}
