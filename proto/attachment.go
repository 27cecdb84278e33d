package proto

// Methods for attachments: images and PDF files that belong to a session. Messages
// refer to them by id, so that packets stay small.
var (
	// MemPutAttachment stores a file with a session, which need not exist yet. The answer
	// comes when it is on disk. PNG, JPEG, GIF, WebP and PDF are accepted, by content: an
	// image of up to 3,932,160 bytes and 50 million pixels, a PDF of up to 10 MiB, and 200
	// MiB in a session. With the media type "text/plain" it is a text in UTF-8 of up to 10
	// MiB: the result of a tool that is too long for a model. The same bytes have the same
	// id.
	MemPutAttachment = method[PutAttachment, Attachment]("mem", "put_attachment", "attachment")
	// MemGetAttachment returns a file of a session. One that is missing or damaged is the
	// error not_found, kind "attachment".
	MemGetAttachment = method[GetAttachment, AttachmentData]("mem", "get_attachment", "attachment_data", public)
)

// Attachment refers to a file that is stored with a session. In a message of a
// conversation it is an element of content, with the type "attachment".
type Attachment struct {
	// ID is "sha256:" and the SHA-256 of the bytes in hexadecimal.
	ID string `json:"id"`
	// Name is the file's name, for people and in the text for the model.
	Name string `json:"name,omitzero"`
	// MediaType is "image/png", "image/jpeg", "image/gif", "image/webp" or
	// "application/pdf".
	MediaType string `json:"media_type"`
	// Bytes is the size.
	Bytes int `json:"bytes"`
	// Width is that of an image, in pixels.
	Width int `json:"width,omitzero"`
	// Height is that of an image, in pixels.
	Height int `json:"height,omitzero"`
}

// FileData is a file with its bytes.
type FileData struct {
	// Name is the file's name without directories.
	Name string `json:"name,omitzero"`
	// MediaType is what the caller takes the file for. The content decides.
	MediaType string `json:"media_type,omitzero"`
	// Data is the content, in base64.
	Data []byte `json:"data"`
}

// PutAttachment is a file to store.
type PutAttachment struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Name is the file's name without directories.
	Name string `json:"name,omitzero"`
	// MediaType is "text/plain" for a text. Else the content decides.
	MediaType string `json:"media_type,omitzero"`
	// Data is the content, in base64.
	Data []byte `json:"data"`
}

// AttachFile is a file to store.
type AttachFile struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Name is the file's name without directories.
	Name string `json:"name,omitzero"`
	// MediaType is what the caller takes the file for. The content decides.
	MediaType string `json:"media_type,omitzero"`
	// Data is the content, in base64.
	Data []byte `json:"data"`
}

// AttachmentRef names a file of a session.
type AttachmentRef struct {
	// ID is the id of the attachment.
	ID string `json:"id"`
	// Name is the file's name, for people and in the text for the model.
	Name string `json:"name,omitzero"`
}

// GetAttachment names a file of a session.
type GetAttachment struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// ID is the id of the attachment.
	ID string `json:"id"`
}

// AttachmentData is a file of a session.
type AttachmentData struct {
	// ID is the id of the attachment.
	ID string `json:"id"`
	// MediaType is its kind.
	MediaType string `json:"media_type"`
	// Data is the content, in base64.
	Data []byte `json:"data"`
}

// ErrorKindAttachment is the kind of an error about an attachment that is not known.
// Details of an error of infer are the ids, separated by blanks.
const ErrorKindAttachment = "attachment"

// TypeAttachment is the type of an element of a message's content that refers to an
// attachment.
const TypeAttachment = "attachment"

// AttachmentPath begins a path of the tool read that names a text of the session by its
// id. "@" and a number of bytes behind the id is where to begin.
const AttachmentPath = "attachment:"

// Limits of attachments, in bytes.
const (
	AttachmentImageMax   = 3932160   // an image: 5 MiB in base64
	AttachmentPDFMax     = 10 << 20  // a PDF
	AttachmentTextMax    = 10 << 20  // the text of a result
	AttachmentSessionMax = 200 << 20 // all of a session
	AttachmentsMax       = 20        // files of a prompt
)
