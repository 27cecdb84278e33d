package mask

// FileValues returns the secrets in the text of a file.
var FileValues = fileValues
