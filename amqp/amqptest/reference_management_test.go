package amqptest_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp/amqptest"
)

func exampleManagement(t *testing.T) {
	b := amqptest.Start(t, amqptest.Management())
	policy := `{"pattern":"^logs","definition":{"max-length":1000},"apply-to":"queues"}`
	r, err := http.NewRequest("PUT", b.ManagementURL()+"/api/policies/%2F/short", strings.NewReader(policy))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Errorf("status %s", answer.Status)
	}
}

// TestManagementExample runs the example of the page, which must stand in this file as it is.
func TestManagementExample(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	exampleManagement(t)
	mine, err := os.ReadFile("reference_management_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/management.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```go\n")
	example, _, _ = strings.Cut(example, "```\n")
	if example == "" || !strings.Contains(string(mine), example) {
		t.Error("the example of the page is not the one that runs")
	}
}

// TestNoManagement: without the option there is no API.
func TestNoManagement(t *testing.T) {
	if u := amqptest.Start(t).ManagementURL(); u != "" {
		t.Errorf("management at %q", u)
	}
}
