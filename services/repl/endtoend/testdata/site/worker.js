importScripts("/zino.js");
var here = "worker";
console.info("the worker works");
