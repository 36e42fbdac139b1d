// Package selector compiles and evaluates message selectors: the conditional expressions over a message's headers and
// properties that the Java Message Service 1.1 defines (section 3.8.1), a subset of SQL-92. Warren takes them in the
// argument x-filter-jms-selector.
//
//	  text ── Compile ──> Selector ──┐
//	                                 ├── Match ──> true or false
//	properties ── View.Reset ──> View ┘
//
// # Grammar
//
//	selector   = [ or ]
//	or         = and { OR and }
//	and        = not { AND not }
//	not        = NOT not | test
//	test       = sum [ ("=" | "<>" | "<" | "<=" | ">" | ">=") sum
//	                 | [NOT] BETWEEN sum AND sum
//	                 | [NOT] IN "(" string { "," string } ")"
//	                 | [NOT] LIKE string [ ESCAPE string ]
//	                 | IS [NOT] NULL ]
//	sum        = product { ("+" | "-") product }
//	product    = sign { ("*" | "/") sign }
//	sign       = ("+" | "-") sign | literal | name | "(" or ")"
//
// Keywords are written in any case, names are compared as they are. IN, LIKE and IS want a name before them. A selector
// of nothing but white space matches every message.
//
// # What it promises
//
// Compile takes text from anywhere: it never panics, recurses at most MaxDepth levels, and refuses more than MaxLength
// bytes or MaxTerms names and literals with the place in the error. Match allocates nothing once its View has grown to
// the number of headers that messages have, and takes time in proportion to terms and headers; LIKE, to the length of
// the pattern (at most MaxPattern characters) times that of the value.
//
// A Selector is immutable and for any goroutine. A View is scratch memory of one goroutine and borrows the message.
//
// # Files
//
// lexer.go and parser.go turn text into nodes, node.go and compare.go are what a node is worth, like.go matches
// patterns, name.go says what a name stands for, view.go finds headers.
package selector
