// Package visible forwards to package text, until its callers use that.
package visible

import "zino/pkg/text"

func Text(s string) string { return text.Visible(s) }
func JSON(s string) string { return text.VisibleJSON(s) }
func Line(s string) string { return text.VisibleLine(s) }
func Harmful(r rune) bool  { return text.Hidden(r) }
