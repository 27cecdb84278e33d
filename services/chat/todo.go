package chat

import (
	"fmt"
	"slices"
	"time"

	"zino/proto"
)

// todoInterval is the shortest time between two prints of the list of tasks.
const todoInterval = 2 * time.Second

// todo is the model's list of tasks.
type todo struct {
	items   []proto.TodoItem
	printed []proto.TodoItem // as it was printed last
	at      time.Time        // when
	active  string           // the item in progress
}

// tasks replaces the list.
func (c *chat) tasks(t *turn, l proto.Todo) {
	t.todo.items, t.todo.active = l.Items, ""
	for _, item := range l.Items {
		if item.Status == proto.TodoActive {
			t.todo.active = safe(item.Text)
		}
	}
	c.todoDue(t)
}

// todoDue prints the list if it has changed and the last print is long enough ago.
func (c *chat) todoDue(t *turn) {
	if t.todo.at.IsZero() || c.now().Sub(t.todo.at) >= todoInterval {
		c.printTodo(t)
	}
}

// printTodo prints the list if it has changed.
func (c *chat) printTodo(t *turn) {
	if len(t.todo.items) == 0 || slices.Equal(t.todo.items, t.todo.printed) {
		return
	}
	t.todo.printed, t.todo.at = t.todo.items, c.now()
	done := 0
	lines := []string{""}
	for i, item := range t.todo.items {
		box, status := "[ ]", "open"
		switch item.Status {
		case proto.TodoDone:
			box, status = "[x]", "done"
			done++
		case proto.TodoActive:
			box, status = "[>]", "active"
		}
		if c.start.Chat.ScreenReader {
			lines = append(lines, fmt.Sprintf("%d. %s: %s", i+1, status, safe(item.Text)))
			continue
		}
		lines = append(lines, "  "+box+" "+safe(item.Text))
	}
	lines[0] = fmt.Sprintf("Tasks %d/%d", done, len(t.todo.items))
	c.print(kindTasks, lines...)
}
