// Package frames turns bytes into the things AMQP 0-9-1 speaks of, and back: frames, methods, field tables,
// content properties and protocol errors. It knows the wire and nothing else: no sockets, no clock, no
// queue, and no state beyond the buffer of a Reader.
//
//	        bytes                                              bytes
//	          |                                                  ^
//	   Reader.Next                                     AppendMethodFrame, AppendDeliver,
//	          |                                        AppendHeaderFrame, AppendBodyFrames
//	        Frame  type, channel, payload (borrowed)             |
//	          |                                                  |
//	  +-------+----------------+----------------+                |
//	SplitMethod        ParseContentHeader     payload            |
//	  |                        |              as it is           |
//	BasicPublish.Decode  ParseProperties                         |
//	  |                        |                                 |
//	a struct, Table      Properties, RawTable, or                |
//	                     PropertyValues, Table  -----------------+
//
// # What it promises
//
// Frames, method arguments and properties from the wire never make it panic, allocate more than a
// fixed multiple of the bytes received, or recurse deeper than MaxTableDepth. What RabbitMQ accepts is accepted
// with every type and order kept, what RabbitMQ refuses comes back as an *Error with the code, text, method
// and scope that RabbitMQ answers. The path of a publish (method, header, body) allocates nothing.
//
// # Who owns what
//
// A Reader belongs to the goroutine that reads the connection; only BytesRead is for others. A frame's
// payload, the []byte fields of BasicPublish, Properties, RawTable and RawValue are views that borrow: they
// are good until the next Reader.Next, or as long as the bytes they were made from. Everything else that is
// decoded is a copy. Append functions take and return the caller's buffer and keep nothing.
//
// # Files
//
// methods.txt lists the methods and methods_gen.go is made from it by gen ("go generate"). method.go has
// ids and the argument reader, table.go and rawtable.go field tables decoded and as views, properties.go
// and values.go content properties likewise, reader.go and writer.go the frames, error.go protocol errors.
//
// Where the AMQP 0-9-1 PDF and RabbitMQ differ, RabbitMQ is followed: letters of field types, and
// exchange.unbind-ok being method 51.
package frames
