package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings come from the environment that Botpool sets, new for each assignment.
type settings struct {
	url           *url.URL
	token         string
	onStandby     bool // the token is that of a standby: the container has no bot yet
	containerID   string
	correlationID string
	waitForStop   time.Duration
	selfFence     time.Duration // 0: none
}

func readEnvironment(get func(string) string) (settings, error) {
	var found settings
	address := strings.TrimSpace(get("BOTPOOL_URL"))
	found.token = strings.TrimSpace(get("BOTPOOL_TOKEN"))
	if standby := strings.TrimSpace(get("BOTPOOL_STANDBY_TOKEN")); found.token == "" && standby != "" {
		found.token, found.onStandby = standby, true
	}
	for variable, value := range map[string]string{"BOTPOOL_URL": address, "BOTPOOL_TOKEN": found.token} {
		if value == "" {
			return found, fmt.Errorf("%s: is not set. Botpool sets it in the containers that it starts", variable)
		}
	}
	if found.containerID = get("BOTPOOL_CONTAINER_ID"); found.containerID == "" {
		found.containerID = get("COOLIFY_RESOURCE_UUID")
	}
	if found.containerID == "" {
		return found, fmt.Errorf("BOTPOOL_CONTAINER_ID: is not set, nor COOLIFY_RESOURCE_UUID")
	}
	if !isVisible(found.token) {
		return found, fmt.Errorf("BOTPOOL_TOKEN: has characters that no token has")
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return found, fmt.Errorf("BOTPOOL_URL: must be http://host[:port] or https://host[:port]")
	}
	found.url = parsed
	if found.waitForStop, err = seconds(get, "BOTPOOL_WAIT_FOR_STOP_S"); err != nil {
		return found, err
	}
	if found.selfFence, err = seconds(get, "BOTPOOL_SELF_FENCE_S"); err != nil {
		return found, err
	}
	found.correlationID = correlationIDIn(get("BOT_DATA"))
	return found, nil
}

// seconds returns a number of seconds from 0; 0 if the variable is not set.
func seconds(get func(string) string, variable string) (time.Duration, error) {
	text := strings.TrimSpace(get(variable))
	if text == "" {
		return 0, nil
	}
	found, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s: is %q, not a number of seconds", variable, text)
	}
	return time.Duration(found) * time.Second, nil
}

// correlationIDIn returns the correlation id for the first call; BOT_DATA may be missing or foreign.
func correlationIDIn(botData string) string {
	var bot struct {
		CorrelationID string `json:"correlationId"`
	}
	_ = json.Unmarshal([]byte(botData), &bot)
	return bot.CorrelationID
}

// isVisible tells whether a text can be the value of a header.
func isVisible(text string) bool {
	for _, each := range text {
		if each < ' ' || each > '~' {
			return false
		}
	}
	return true
}

// commandEnvironment returns the environment of the command: the wrapper's own and the bot's variables.
// A variable that is set already, for example by the pool's env, keeps its value.
func commandEnvironment(own []string, known *identity, statusURL string) []string {
	environment := append([]string{}, own...)
	add := func(name, value string) {
		_, set := os.LookupEnv(name)
		if !set && !strings.ContainsRune(value, 0) {
			environment = append(environment, name+"="+value)
		}
	}
	add("BOT_DATA", known.botDataVariable())
	add("BOT_ID", strconv.FormatInt(known.Bot.ID, 10))
	add("BOT_MEETING_URL", known.Bot.MeetingURL)
	add("BOT_DISPLAY_NAME", known.Bot.DisplayName)
	add("BOT_PLATFORM", known.Bot.Platform)
	add("BOT_CORRELATION_ID", known.Bot.CorrelationID)
	for name, value := range known.BotData {
		if text, ok := scalar(value); ok && isIdentifier(name) {
			add("BOT_DATA_"+name, text)
		}
	}
	if statusURL != "" {
		add("BOTPOOL_STATUS_URL", statusURL)
	}
	return environment
}

// scalar returns a text, number, true or false of botData as text.
func scalar(value json.RawMessage) (string, bool) {
	value = bytes.TrimSpace(value)
	var text string
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		return text, true
	}
	return string(value), len(value) > 0 && !strings.ContainsRune("[{n", rune(value[0]))
}

func isIdentifier(name string) bool {
	for i, each := range name {
		isLetter := each == '_' || (each|0x20 >= 'a' && each|0x20 <= 'z')
		if !isLetter && (i == 0 || each < '0' || each > '9') {
			return false
		}
	}
	return name != ""
}
