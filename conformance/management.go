package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ManagementAdmin is an Admin that speaks RabbitMQ's management API. It is also a ConnectionCloser.
type ManagementAdmin struct {
	base string // http://host:port, immutable
	user string
	pass string

	// tracing lets one change of tracing in at a time: RabbitMQ 3.10 loses one of two that meet.
	tracing sync.Mutex
}

// NewManagementAdmin takes http://host:port with or without user:password@ (guest:guest without).
func NewManagementAdmin(address string) (*ManagementAdmin, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse management address: %w", err)
	}
	a := &ManagementAdmin{user: "guest", pass: "guest"}
	if u.User != nil {
		a.user = u.User.Username()
		a.pass, _ = u.User.Password()
	}
	u.User = nil
	a.base = strings.TrimSuffix(u.String(), "/")
	return a, nil
}

// call sends one request. Path elements are escaped here. A status outside 2xx is an error with the body in it,
// except 404 on DELETE: what is to be gone is gone.
func (a *ManagementAdmin) call(method string, body any, header http.Header, path ...string) ([]byte, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	for i, p := range path {
		path[i] = url.PathEscape(p)
	}
	req, err := http.NewRequest(method, a.base+"/api/"+strings.Join(path, "/"), bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.SetBasicAuth(a.user, a.pass)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call management API: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("read management answer: %w", err)
	}
	gone := method == http.MethodDelete && resp.StatusCode == http.StatusNotFound
	if resp.StatusCode/100 != 2 && !gone {
		return nil, fmt.Errorf("%s %s: %s: %s", method, strings.Join(path, "/"), resp.Status, answer)
	}
	return answer, nil
}

// CreateVHost implements [Admin]; the administrator gets full permissions there.
func (a *ManagementAdmin) CreateVHost(name string) error {
	if _, err := a.call(http.MethodPut, nil, nil, "vhosts", name); err != nil {
		return err
	}
	return a.SetPermissions(a.user, name, ".*", ".*", ".*")
}

// DeleteVHost implements [Admin].
func (a *ManagementAdmin) DeleteVHost(name string) error {
	_, err := a.call(http.MethodDelete, nil, nil, "vhosts", name)
	return err
}

// PutUser implements [Admin].
func (a *ManagementAdmin) PutUser(name, password string, tags ...string) error {
	body := map[string]string{"password": password, "tags": strings.Join(tags, ",")}
	_, err := a.call(http.MethodPut, body, nil, "users", name)
	return err
}

// DeleteUser implements [Admin].
func (a *ManagementAdmin) DeleteUser(name string) error {
	_, err := a.call(http.MethodDelete, nil, nil, "users", name)
	return err
}

// SetPermissions implements [Admin].
func (a *ManagementAdmin) SetPermissions(user, vhost, configure, write, read string) error {
	body := map[string]string{"configure": configure, "write": write, "read": read}
	_, err := a.call(http.MethodPut, body, nil, "permissions", vhost, user)
	return err
}

// SetTopicPermissions implements [Admin].
func (a *ManagementAdmin) SetTopicPermissions(user, vhost, exchange, write, read string) error {
	body := map[string]string{"exchange": exchange, "write": write, "read": read}
	_, err := a.call(http.MethodPut, body, nil, "topic-permissions", vhost, user)
	return err
}

// PutPolicy implements [Admin].
func (a *ManagementAdmin) PutPolicy(vhost string, p Policy) error {
	_, err := a.call(http.MethodPut, p, nil, "policies", vhost, p.Name)
	return err
}

// DeletePolicy implements [Admin].
func (a *ManagementAdmin) DeletePolicy(vhost, name string) error {
	_, err := a.call(http.MethodDelete, nil, nil, "policies", vhost, name)
	return err
}

// PutOperatorPolicy implements [Admin].
func (a *ManagementAdmin) PutOperatorPolicy(vhost string, p Policy) error {
	_, err := a.call(http.MethodPut, p, nil, "operator-policies", vhost, p.Name)
	return err
}

// DeleteOperatorPolicy implements [Admin].
func (a *ManagementAdmin) DeleteOperatorPolicy(vhost, name string) error {
	_, err := a.call(http.MethodDelete, nil, nil, "operator-policies", vhost, name)
	return err
}

// SetVHostLimit implements [Admin].
func (a *ManagementAdmin) SetVHostLimit(vhost, name string, value int) error {
	_, err := a.call(http.MethodPut, map[string]int{"value": value}, nil, "vhost-limits", vhost, name)
	return err
}

// SetUserLimit implements [Admin].
func (a *ManagementAdmin) SetUserLimit(user, name string, value int) error {
	_, err := a.call(http.MethodPut, map[string]int{"value": value}, nil, "user-limits", user, name)
	return err
}

// SetTracing implements [Tracer].
func (a *ManagementAdmin) SetTracing(vhost string, on bool) error {
	a.tracing.Lock()
	defer a.tracing.Unlock()
	_, err := a.call(http.MethodPut, map[string]bool{"tracing": on}, nil, "vhosts", vhost)
	return err
}

// CloseConnection implements [ConnectionCloser]. RabbitMQ lists a connection some time after it has opened, so the
// list is read until it is there.
func (a *ManagementAdmin) CloseConnection(user, reason string) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		answer, err := a.call(http.MethodGet, nil, nil, "connections")
		if err != nil {
			return err
		}
		var list []struct{ Name, User string }
		if err := json.Unmarshal(answer, &list); err != nil {
			return fmt.Errorf("decode connection list: %w", err)
		}
		for _, c := range list {
			if c.User != user {
				continue
			}
			header := http.Header{}
			if reason != "" {
				header.Set("X-Reason", reason)
			}
			_, err := a.call(http.MethodDelete, nil, header, "connections", c.Name)
			return err
		}
	}
	return fmt.Errorf("close connection of user %q: it is not listed", user)
}
