// Lists, decides on and approves the scheduled events of one VM: mono Events.exe NAME [once]
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;

[DataContract] class Document { [DataMember] public Happening[] Events = null; }

[DataContract] class Happening
{
    [DataMember] public string EventId = "", EventStatus = "", EventType = "", NotBefore = "";
    [DataMember] public string[] Resources = null;
    [DataMember] public int DurationInSeconds = -1;
}

static class Events
{
    static readonly string Url = (Environment.GetEnvironmentVariable("SCHEDULED_EVENTS_URL")
        ?? "http://169.254.169.254/metadata/scheduledevents") + "?api-version=2020-07-01";

    static Stream Ask(string body = null)
    {
        var request = (HttpWebRequest)WebRequest.Create(Url);
        request.Proxy = null; // metadata never goes through a proxy
        request.Timeout = 10000;
        request.Headers["Metadata"] = "true";
        if (body != null)
        {
            request.Method = "POST";
            request.ContentType = "application/json";
            var bytes = Encoding.UTF8.GetBytes(body);
            using (var stream = request.GetRequestStream()) stream.Write(bytes, 0, bytes.Length);
        }
        var content = new MemoryStream();
        using (var response = request.GetResponse()) response.GetResponseStream().CopyTo(content);
        content.Position = 0;
        return content;
    }

    static void Look(string vm, HashSet<string> doneWith)
    {
        var document = (Document)new DataContractJsonSerializer(typeof(Document)).ReadObject(Ask());
        foreach (var happening in document.Events)
        {
            var isMine = happening.Resources.Contains(vm, StringComparer.OrdinalIgnoreCase);
            if (!isMine || happening.EventStatus != "Scheduled" || doneWith.Contains(happening.EventId)) continue;
            Console.WriteLine("{0} of {1}, not before {2}", happening.EventType, vm, happening.NotBefore);
            var seconds = happening.DurationInSeconds;
            if (happening.EventType != "Freeze" || seconds < 0 || seconds >= 10)
                Console.WriteLine("getting ready for {0}", happening.EventType); // save what must be saved
            Ask("{\"StartRequests\": [{\"EventId\": \"" + happening.EventId + "\"}]}");
            doneWith.Add(happening.EventId);
            Console.WriteLine("approved {0}", happening.EventId);
        }
    }

    static void Main(string[] arguments)
    {
        if (arguments.Length == 0)
        {
            Console.Error.WriteLine("usage: Events.exe NAME [once]");
            Environment.Exit(2);
        }
        var doneWith = new HashSet<string>();
        do
        {
            try { Look(arguments[0], doneWith); }
            catch (Exception error)
            {
                // The endpoint may be busy, or its answer cut off; the next look comes soon.
                Console.Error.WriteLine("not answered: {0}", error.Message);
            }
            if (arguments.Length < 2) Thread.Sleep(1000);
        } while (arguments.Length < 2);
        Environment.Exit(0); // mono left to end by itself waits for its threads, at times for ever
    }
}
