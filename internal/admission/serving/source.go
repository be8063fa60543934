package serving

// UseCertificates makes the server ask get for the certificate of each connection, whatever the options say. It must be
// called before Start: it is for servers that have to exist before what keeps their certificates.
func (s *Server) UseCertificates(get GetCertificate) { s.source = get }
