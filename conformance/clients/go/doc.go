// Command go is the conformance program of the Go client
// github.com/rabbitmq/amqp091-go, used as its users use it: nothing in it knows
// which broker answers.
//
// It takes the steps that every client program takes (see the README one folder
// up), in order, each building on the state that the earlier ones left:
//
//	connect -> declare -> bind -> publish-confirm -> consume-ack -> ...
//	   -> restart (the library's own recovery brings a consumer back, a new
//	      connection finds the message) -> delete
//
// One line is printed a step; the first failed step ends the program with exit
// code 1. All state is owned by the main goroutine; the library's goroutines reach
// it only through Go channels, and each wait is bounded by [patience].
package main
