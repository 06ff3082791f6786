package state

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// defaultClient is the name of the OAuth client that is set by id and secret.
const defaultClient = "default"

// consents is what the settings say about signing in with Google.
func (c Config) consents() (oauth.Config, error) {
	out := oauth.Config{AuthURL: c.AuthURL, TokenURL: c.TokenURL, RevokeURL: c.RevokeURL, Testing: c.Testing}
	if c.ClientID != "" {
		out.Clients = append(out.Clients, oauth.Client{Name: defaultClient, ID: c.ClientID, Secret: c.ClientSecret})
	}
	for _, entry := range c.ClientFiles {
		name, path, named := strings.Cut(entry, "=")
		if !named {
			path, name = entry, strings.TrimSuffix(filepath.Base(entry), ".json")
		}
		client, err := readClient(name, path)
		if err != nil {
			return out, err
		}
		out.Clients = append(out.Clients, client)
	}
	return out, out.Validate()
}

// readClient reads the file that the Google Cloud console offers for download with a client.
func readClient(name, path string) (oauth.Client, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return oauth.Client{}, fmt.Errorf("OAuth client %q: %w", name, err)
	}
	type credentials struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	var file struct{ Web, Installed *credentials }
	err = json.Unmarshal(data, &file)
	found := file.Web
	if found == nil {
		found = file.Installed
	}
	if err != nil || found == nil {
		// The decoder's error may quote the file.
		return oauth.Client{}, fmt.Errorf("OAuth client %q: %s is not a client file; download it in JSON form from the client's page in the Google Cloud console", name, path)
	}
	return oauth.Client{Name: name, ID: found.ID, Secret: config.Secret(found.Secret)}, nil
}

// validExternal refuses an address that Google could not send browsers back to.
func validExternal(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("external URL %q: give scheme and host as browsers see them, such as https://calendars.example.com; a path goes into the path prefix", address)
	}
	return nil
}
